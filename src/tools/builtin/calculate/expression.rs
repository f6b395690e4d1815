//! Translates what people and models write into the evaluator's notation.
//!
//! A sign is replaced only if it can mean just one thing. If it can mean two, it is refused with
//! both ways to write it, because a wrong sum looks just like a right one.

use std::iter;

/// Rewrites `written` in the evaluator's characters, or says what cannot be read.
pub(super) fn plain(written: &str) -> Result<String, String> {
    let written = written.trim().trim_end_matches(['=', '?', ',', ';', ' ']);
    let plain = String::with_capacity(written.len());
    let mut reader = Reader { written, rest: written, plain, depth: 0 };
    while let Some(char) = reader.rest.chars().next() {
        reader.read(char)?;
    }
    Ok(reader.plain)
}

/// Words that may come between two operands.
const OPERATORS: [&str; 5] = ["plus", "minus", "times", "multiplied", "divided"];

/// Single-character exponents, in order.
const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

struct Reader<'w> {
    written: &'w str,
    rest: &'w str,
    plain: String,
    /// Open parentheses.
    depth: usize,
}

impl Reader<'_> {
    /// Reads the token that begins with `char`, which is next.
    fn read(&mut self, char: char) -> Result<(), String> {
        if char.is_ascii_alphabetic() {
            return self.read_word();
        }
        self.rest = &self.rest[char.len_utf8()..];
        match char {
            '0'..='9' | '.' | '+' | '-' | '*' | '/' | '^' | '!' => self.plain.push(char),
            char if char.is_whitespace() => self.plain.push(' '),
            '(' => {
                self.depth += 1;
                self.plain.push('(');
            }
            ')' => {
                self.depth = self.depth.saturating_sub(1);
                self.plain.push(')');
            }
            '×' | '·' | '⋅' => self.plain.push('*'),
            '÷' => self.plain.push('/'),
            '−' | '–' => self.plain.push('-'),
            'π' => self.plain.push_str("pi"),
            '√' => self.read_root(),
            '⁻' => self.read_exponent('⁻'),
            char if SUPERSCRIPTS.contains(&char) => self.read_exponent(char),
            ',' => return self.read_comma(),
            '%' => return self.read_percent(true),
            '$' | '€' | '£' => {
                return Err(format!("leave out {char}: only numbers can be calculated"));
            }
            other => return Err(format!("{other:?} is not part of an arithmetic expression")),
        }
        Ok(())
    }

    fn read_word(&mut self) -> Result<(), String> {
        let end = self.rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word {
            // Base 10 to engineers, base e to mathematicians and programming languages.
            "log" => return Err("log can mean two things: write log10(x), log2(x) or ln(x)".into()),
            // Only an x that stands alone is a sign.
            "x" | "X" if self.plain.ends_with([' ', ')']) => self.plain.push('*'),
            "plus" => self.plain.push('+'),
            "minus" => self.plain.push('-'),
            "times" => self.plain.push('*'),
            "multiplied" => self.read_by('*'),
            "divided" => self.read_by('/'),
            "percent" => return self.read_percent(false),
            "factorial" => self.plain.push_str("fact"),
            "ceiling" => self.plain.push_str("ceil"),
            // A name, or the exponent of a number: the e3 of 1e3.
            word => self.plain.push_str(word),
        }
        Ok(())
    }

    /// Reads the second word of `divided by`.
    fn read_by(&mut self, sign: char) {
        self.plain.push(sign);
        self.rest = self.rest.trim_start();
        self.rest = self.rest.strip_prefix("by ").unwrap_or(self.rest);
    }

    /// Reads a root of the number or parenthesis that follows.
    fn read_root(&mut self) {
        self.rest = self.rest.trim_start();
        self.plain.push_str("sqrt");
        let end = self.rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if !number.is_empty() {
            self.plain.extend(["(", number, ")"]);
            self.rest = rest;
        }
    }

    /// Reads a run of superscripts as one exponent. `first` has already been read.
    fn read_exponent(&mut self, first: char) {
        let digit = |char| SUPERSCRIPTS.iter().position(|known| *known == char);
        let minus = if first == '⁻' { "-" } else { "" };
        let digits: String = iter::once(first)
            .chain(self.rest.chars())
            .skip(minus.len())
            .map_while(digit)
            .map(|digit| digit.to_string())
            .collect();
        let read = digits.len() - usize::from(minus.is_empty());
        let end = self.rest.char_indices().nth(read).map_or(self.rest.len(), |(at, _)| at);
        self.rest = &self.rest[end..];
        self.plain.extend(["^(", minus, &digits, ")"]);
    }

    /// A comma between arguments or, outside of parentheses, between thousands.
    fn read_comma(&mut self) -> Result<(), String> {
        match (self.is_between_thousands(), self.depth) {
            (true, 0) => {}
            (true, _) if self.rest.starts_with('0') => {
                return Err("write numbers without commas between the thousands".into());
            }
            (_, 0) => {
                return Err("commas only separate a function's arguments: write decimals \
                            with a point"
                    .into());
            }
            _ => self.plain.push(','),
        }
        Ok(())
    }

    /// Whether the comma just read is part of a number such as `1,234,567`: one to three digits
    /// before the first comma, no leading zero, three digits after each comma.
    fn is_between_thousands(&self) -> bool {
        let before = &self.written[..self.written.len() - self.rest.len() - 1];
        let number = before.rfind(|char: char| !char.is_ascii_digit() && !",.".contains(char));
        let number = number.map_or(before, |at| &before[at..]);
        let mut groups = number.trim_start_matches(|char: char| !char.is_ascii_digit()).split(',');
        let is_first = |group: &str| (1..=3).contains(&group.len()) && !group.starts_with('0');
        let is_group =
            |group: &str| group.len() == 3 && group.bytes().all(|it| it.is_ascii_digit());
        let after = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        !number.contains('.')
            && groups.next().is_some_and(is_first)
            && groups.all(is_group)
            && after == 3
    }

    /// Reads a remainder if an operand follows the sign, otherwise a percentage: the number before
    /// it, divided by a hundred.
    fn read_percent(&mut self, is_sign: bool) -> Result<(), String> {
        let rest = self.rest.trim_start();
        let of =
            rest.strip_prefix("of").filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()));
        let operand = is_sign
            && !OPERATORS.iter().any(|word| rest.starts_with(word))
            && rest.starts_with(|char: char| char.is_ascii_alphanumeric() || "(.√".contains(char));
        if operand && of.is_none() {
            self.plain.push('%');
            return Ok(());
        }
        // As in `17 % -5`. `17% - 5` is a percentage.
        let is_signed = rest.starts_with(['+', '-', '−', '–'])
            && rest.chars().nth(1).is_some_and(|char| char.is_ascii_digit());
        if is_sign && is_signed && self.plain.ends_with(' ') {
            return Err("% before a sign can mean two things: write a mod (-b) or a/100 - b".into());
        }
        let before = self.plain.trim_end();
        let number = before
            .rfind(|char: char| !char.is_ascii_digit() && char != '.')
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        if number == before.len() {
            return Err("a percentage is a number and %: write (a + b) / 100 for others".into());
        }
        let (left, number) = before.split_at(number);
        let left = left.trim_end();
        let adds = left.strip_suffix(['+', '-']).map(str::trim_end);
        if of.is_none()
            && adds.is_some_and(|left| {
                left.ends_with(|c: char| c.is_alphanumeric() || ")!".contains(c))
            })
        {
            return Err(format!(
                "adding {number}% can mean two things: write a * (1 + {number}/100), or a + {number}/100"
            ));
        }
        if of.is_some() && left.ends_with(['/', '^', '%']) {
            return Err(format!(
                "put the whole percentage, such as ({number}% of 50), in parentheses"
            ));
        }
        let product = if of.is_some() { "*" } else { "" };
        self.plain = format!("{left}({number}/100){product}");
        if let Some(of) = of {
            self.rest = of;
        }
        Ok(())
    }
}
