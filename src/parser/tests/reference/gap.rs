//! What comes between an opener, or a label, and a payload.

use super::Reference;
use crate::call_format::{Body, Fence};
use crate::parser::Repair;

impl Reference<'_> {
    /// Where the payload begins, whether a fence opened, what was dropped.
    pub(super) fn gap(&self) -> Option<(usize, bool, Vec<Repair>)> {
        let end = self.gap_end();
        let gap = std::str::from_utf8(&self.input[self.at..end]).ok()?;
        let body = &self.s.format.row().body;
        let is_list = matches!(body, Body::Json(_) | Body::Keyed | Body::Pythonic(_));
        match self.input.get(end) {
            Some(b'{') if !matches!(body, Body::Pythonic(_)) => {}
            Some(b'[') if is_list => {}
            _ => return None,
        }
        if self.is_trying && self.s.format.row().label.is_none() && !self.is_sure(end) {
            return None;
        }
        let word = gap.trim_matches([' ', '\t', '\r', '\n']);
        let is_opener = word.starts_with("```") && self.fresh_line();
        if self.s.format.row().fence == Fence::Needed && !is_opener {
            return None;
        }
        if let Some(_language) = word.strip_prefix("```") {
            let is_fenced = self.s.format.row().fence != Fence::None;
            return Some((end, true, if is_fenced { vec![] } else { vec![Repair::CodeFence] }));
        }
        match word.to_ascii_lowercase().as_str() {
            "" => Some((end, false, vec![])),
            "json" | "json5" | "jsonc" | "javascript" | "js" | "python" | "py" | "tool_call"
            | "tool_code" => Some((end, false, vec![Repair::LanguageWord])),
            _ => None,
        }
    }

    /// Whether what begins with the bracket here names an offered tool, within 512 bytes.
    fn is_sure(&self, bracket: usize) -> bool {
        let Some(keys) = self.s.format.row().keys() else { return true };
        let read = |sure: &mut bool| {
            let bytes = &self.input[..self.input.len().min(self.at + 512)];
            let skip = |at: usize| {
                let length = super::space(&bytes[at..]);
                (length <= 256).then_some(at + length)
            };
            let eat = |at: usize, byte: u8| (bytes.get(at) == Some(&byte)).then_some(at + 1);
            let text = |at: usize| {
                let start = eat(at, b'"')?;
                let length = bytes[start..].iter().position(|byte| b"\"\\\n".contains(byte))?;
                (length <= 256).then_some(())?;
                Some((&bytes[start..start + length], eat(start + length, b'"')?))
            };
            let mut at = bracket;
            if bytes[at] == b'[' {
                at = skip(at + 1)?;
            }
            at = skip(eat(at, b'{')?)?;
            let value = |at: usize| {
                let (key, at) = text(at)?;
                let (value, at) = text(skip(eat(skip(at)?, b':')?)?)?;
                Some((key, value, at))
            };
            let is_name = |key: &[u8]| keys.name.iter().any(|name| name.as_bytes() == key);
            let name = match value(at)? {
                (key, name, _) if is_name(key) => name,
                (b"type", _, at) => match value(skip(eat(skip(at)?, b',')?)?)? {
                    (key, name, _) if is_name(key) => name,
                    _ => return None,
                },
                _ => return None,
            };
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
            *sure = self.s.tools.may_have(name);
            Some(())
        };
        let mut sure = false;
        read(&mut sure);
        sure
    }

    /// The end of the longest prefix that may be a gap.
    pub(super) fn gap_end(&self) -> usize {
        let rest = &self.input[self.at..];
        let longest = (0..=rest.len().min(256)).rev().find(|&n| self.may_be_gap(&rest[..n]));
        self.at + longest.expect("nothing may be a gap")
    }

    fn may_be_gap(&self, gap: &[u8]) -> bool {
        let Ok(gap) = std::str::from_utf8(gap) else { return false };
        let word = gap.trim_start_matches([' ', '\t', '\r', '\n']);
        let is_fenced = self.s.format.row().fence != Fence::None;
        if word.is_empty() || self.s.strict_balancing && !is_fenced {
            return word.is_empty();
        }
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-+".contains(c);
        let (fenced, word) = match word.strip_prefix("```") {
            Some(language) => (true, language),
            None if "``".starts_with(word) => return true,
            None if self.s.strict_balancing => return false,
            None => (false, word),
        };
        let space = word.trim_start_matches(is_letter);
        let word = &word[..word.len() - space.len()];
        let known = fenced
            || [
                "json",
                "json5",
                "jsonc",
                "javascript",
                "js",
                "python",
                "py",
                "tool_call",
                "tool_code",
            ]
            .contains(&word.to_ascii_lowercase().as_str());
        space.trim_matches([' ', '\t', '\r', '\n']).is_empty()
            && (fenced || !word.is_empty())
            && (known || space.is_empty())
    }
}
