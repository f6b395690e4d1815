//! Keys that a service or a program is given, taken out of what it says: some repeat them as they refuse a request, and
//! models and clients read that.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ffi::OsString;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use url::Url;

use super::{Clarification, ClarificationOption, ToolFault, ToolResult};
use crate::hidden_key::HiddenKey;
use crate::http::RESERVED;

/// Fields with one of these words in their names hold keys. The values of others (`X-Tenant: acme`) may be what an
/// answer is about.
const KEY_WORDS: &[&str] = &[
    "apikey",
    "appid",
    "auth",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "key",
    "pass",
    "passphrase",
    "password",
    "passwd",
    "pgpassword",
    "pwd",
    "secret",
    "signature",
    "token",
];

/// The keys in a request, or in a program's environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::tools) struct Keys(Vec<HiddenKey>);

impl Keys {
    /// Notes an operator's credential, in every form in which it is sent.
    pub(in crate::tools) fn note_credential(&mut self, credential: &str) {
        self.note_value(credential);
        if let Some((_, password)) = credential.split_once(':') {
            self.note(password);
            self.note(&BASE64.encode(credential));
        }
    }

    /// Notes the keys in a header, if its name says that it holds some: `Bearer KEY`, `a=KEY; b="KEY"`.
    pub(in crate::tools) fn note_header(&mut self, name: &str, value: &str) {
        if !holds_keys(name) {
            return;
        }
        let value = match value.split_once(' ') {
            Some((_scheme, value)) if name == "authorization" => value,
            _ => value,
        };
        for word in value.split([' ', ';', ',']) {
            self.note(word);
            if let Some((_, value)) = word.split_once('=') {
                self.note(value.trim_matches('"'));
            }
        }
    }

    /// Notes a field, if its name says that it holds a key.
    pub(in crate::tools) fn note_field(&mut self, name: &str, value: &str) {
        if holds_keys(name) {
            self.note_value(value);
        }
    }

    /// Notes the fields of an address's query whose names say that they hold keys.
    pub(in crate::tools) fn note_query(&mut self, url: &Url) {
        for (name, value) in url.query_pairs() {
            self.note_field(&name, &value);
        }
    }

    /// Notes the variables of a program's environment whose names say that they hold keys.
    pub(in crate::tools) fn note_environment(&mut self, environment: &[(OsString, OsString)]) {
        // Variables that say where a key is.
        let is_path =
            |name: &str| ["_DIR", "_FILE", "_PATH", "_SOCK"].iter().any(|end| name.ends_with(end));
        for (name, value) in environment {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
                && name != "PWD"
                && !is_path(name)
            {
                self.note_field(name, value);
            }
        }
    }

    /// Notes a key as it is, and as it is sent in a query.
    fn note_value(&mut self, value: &str) {
        self.note(value);
        self.note(&Cow::from(utf8_percent_encode(value, RESERVED)));
    }

    fn note(&mut self, key: &str) {
        self.0.extend(HiddenKey::of(key));
        // One that begins another must not leave the rest of that.
        self.0.sort_by_key(|key| Reverse(key.len()));
    }

    /// What came of a call, without the keys.
    pub(in crate::tools) fn hide(
        &self,
        outcome: Result<ToolResult, ToolFault>,
    ) -> Result<ToolResult, ToolFault> {
        match outcome {
            _ if self.0.is_empty() => outcome,
            Ok(result) => Ok(self.hidden_in_result(result)),
            Err(fault) => Err(ToolFault { message: self.hidden(fault.message), ..fault }),
        }
    }

    /// A text without the keys.
    pub(in crate::tools) fn hidden(&self, mut text: String) -> String {
        self.hide_in(&mut text);
        text
    }

    fn hidden_in_result(&self, mut result: ToolResult) -> ToolResult {
        let texts = [&mut result.error, &mut result.instruction_for_ai];
        texts.into_iter().flatten().for_each(|text| self.hide_in(text));
        self.hide_in_data(&mut result.data);
        result.for_user.iter_mut().for_each(|text| self.hide_in(text));
        for file in &mut result.files {
            file.name.iter_mut().chain([&mut file.mime_type]).for_each(|text| self.hide_in(text));
        }
        for file in &mut result.artifacts {
            let texts = file.name.iter_mut().chain(&mut file.error).chain([&mut file.mime_type]);
            texts.for_each(|text| self.hide_in(text));
        }
        result.clarification = result.clarification.map(|asked| self.hidden_in_question(asked));
        result
    }

    /// A question without the keys.
    pub(in crate::tools) fn hidden_in_question(&self, mut asked: Clarification) -> Clarification {
        let Clarification { r#type, question, options, schema, url } = &mut asked;
        [r#type, question].into_iter().chain(url).for_each(|text| self.hide_in(text));
        self.hide_in_data(schema);
        for option in options {
            let ClarificationOption { id, title, subtitle, metadata, .. } = option;
            [id, title].into_iter().chain(subtitle).for_each(|text| self.hide_in(text));
            self.hide_in_data(metadata);
        }
        asked
    }

    fn hide_in(&self, text: &mut String) {
        for key in &self.0 {
            if let Some(hidden) = key.hidden_in(text) {
                *text = hidden;
            }
        }
    }

    fn hide_in_data(&self, data: &mut Option<Value>) {
        let mut rest: Vec<&mut Value> = data.iter_mut().collect();
        while let Some(value) = rest.pop() {
            match value {
                Value::String(text) => self.hide_in(text),
                Value::Array(items) => rest.extend(items),
                Value::Object(members) => {
                    if members.keys().any(|name| self.is_in(name)) {
                        let named = std::mem::take(members).into_iter();
                        *members = named.map(|(name, it)| (self.hidden(name), it)).collect();
                    }
                    rest.extend(members.values_mut());
                }
                _ => {}
            }
        }
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|key| key.hidden_in(text).is_some())
    }
}

fn holds_keys(name: &str) -> bool {
    let mut words = name.split(['-', '_', '.']);
    words.any(|word| KEY_WORDS.contains(&&*word.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::{ListedFile, ToolFile};

    #[track_caller]
    fn check(keys: &Keys, said: &str, shown: &str) {
        let result = keys.hide(Ok(ToolResult::error(said.to_owned()))).unwrap();
        assert_eq!(result.error.as_deref(), Some(shown));
    }

    #[test]
    fn headers_that_hold_keys_are_known_by_their_names() {
        for (name, value, said, shown) in [
            ("x-api-key", "s3cr3t-key", "no: s3cr3t-key", "no: [the key]"),
            ("authorization", "Bearer s3cr3t-key", "Bearer s3cr3t-key", "Bearer [the key]"),
            ("authorization", "Token token=\"s3cr3t-key\"", "s3cr3t-key?", "[the key]?"),
            ("cookie", "session=s3cr3t-key; theme=dark", "s3cr3t-key, dark", "[the key], dark"),
            ("x-tenant", "acme-works", "acme-works", "acme-works"),
            ("x-author", "alice-smith", "alice-smith", "alice-smith"),
            ("x-auth", "short", "short", "short"),
        ] {
            let mut keys = Keys::default();
            keys.note_header(name, value);
            check(&keys, said, shown);
        }
    }

    #[test]
    fn a_key_is_hidden_as_it_is_sent() {
        let mut keys = Keys::default();
        keys.note_field("appid", "ab+cd/ef==");
        keys.note_credential("tether:pass+word");
        keys.note_field("city", "San Francisco");
        check(&keys, "/x?appid=ab%2Bcd%2Fef%3D%3D", "/x?appid=[the key]");
        check(&keys, r#"{"appid":"ab\u002bcd\/ef=="}"#, r#"{"appid":"[the key]"}"#);
        check(&keys, "no user has pass+word", "no user has [the key]");
        check(&keys, "Basic dGV0aGVyOnBhc3Mrd29yZA==", "Basic [the key]");
        check(&keys, "San Francisco", "San Francisco");
    }

    #[test]
    fn a_key_that_begins_another_leaves_nothing_of_it() {
        let mut keys = Keys::default();
        keys.note_credential("s3cr3t-key");
        keys.note_credential("s3cr3t-key-of-two");
        check(&keys, "s3cr3t-key-of-two", "[the key]");
    }

    /// Users read all of it, and models most of it.
    #[test]
    fn a_key_is_hidden_in_all_parts_of_a_result() {
        let mut keys = Keys::default();
        keys.note_credential("s3cr3t-key");
        let said = || "s3cr3t-key".to_owned();
        let file =
            ToolFile { name: Some(said()), mime_type: "text/plain".to_owned(), bytes: "x".into() };
        let mut option = ClarificationOption::new(said(), said());
        (option.subtitle, option.metadata) = (Some(said()), Some(json!({"s3cr3t-key": [said()]})));
        let form = Clarification::form(said(), json!({"properties": {"s3cr3t-key": said()}}));
        let page = Clarification::page(said(), "https://a.example/?k=s3cr3t-key");
        for asked in [form, page] {
            let options = vec![option.clone()];
            let mut result = ToolResult::clarification(Clarification { options, ..asked });
            result.data = Some(json!({"s3cr3t-key": {"by s3cr3t-key": 1}}));
            result = result.with_instruction(said()).with_texts_for_user(vec![said()]);
            result.list_files(vec![ListedFile { error: Some(said()), ..file.listed() }]);
            result = result.with_files(vec![file.clone()]);
            let hidden = keys.hide(Ok(result)).unwrap();
            assert!(!format!("{hidden:?}").contains("s3cr3t"), "{hidden:?}");
            let data = json!({"[the key]": {"by [the key]": 1}});
            assert_eq!(hidden.data, Some(data));
        }
    }

    #[test]
    fn only_texts_change() {
        let mut keys = Keys::default();
        keys.note_header("x-token", "12345678");
        let data = json!({"id": 12_345_678, "sent": ["12345678", {"as": "x 12345678"}]});
        let result = keys.hide(Ok(ToolResult::data(data))).unwrap();
        let shown = json!({"id": 12_345_678, "sent": ["[the key]", {"as": "x [the key]"}]});
        assert_eq!(result.data, Some(shown));
        let fault = keys.hide(Err(ToolFault::permanent("12345678 is none"))).unwrap_err();
        assert_eq!(fault.message, "[the key] is none");
    }
}
