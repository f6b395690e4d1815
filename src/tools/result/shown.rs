//! A result as clients get it: its files and what is for the user are members of its data.
//!
//! ```text
//!   {"data": {"text": ".."}, "artifacts": [..]}  ->  {"data": {"text": "..", "artifacts": [..]}}
//! ```
//! They are fields of their own until then, because what a tool returns may have members of these
//! names that mean something else.

use std::borrow::Cow;

use serde::{Serialize as _, Serializer};
use serde_json::{Map, Value, json};

use super::{ListedFile, ToolResult};

/// The member of data that lists files.
pub(super) const ARTIFACTS: &str = "artifacts";

/// The member of data that users see, and models do not.
const FOR_USER: &str = "for_user";

/// The member for a tool's own data if it is no object, or has one of these members.
const VALUE: &str = "value";

impl ToolResult {
    /// Lists files of it.
    pub(crate) fn list_files(&mut self, files: Vec<ListedFile>) {
        if !files.is_empty() {
            self.make_room(ARTIFACTS);
            self.artifacts.extend(files);
        }
    }

    /// The same with something for the user alone.
    #[must_use]
    pub(crate) fn with_texts_for_user(mut self, texts: Vec<String>) -> Self {
        if !texts.is_empty() {
            self.make_room(FOR_USER);
            self.for_user.extend(texts);
        }
        self
    }

    /// The same with something that the user has to know: they see it, and the model is asked to
    /// say it, since not all clients show results.
    #[must_use]
    pub(crate) fn with_notice(self, notice: String) -> Self {
        let told = format!("Tell the user: {notice}");
        let told = match &self.instruction_for_ai {
            Some(instruction) => format!("{told} {instruction}"),
            None => told,
        };
        self.with_instruction(told).with_texts_for_user(vec![notice])
    }

    /// Moves data that has no room for a member of this name to one that has. This is done at once,
    /// so that later calls find the data where the model saw it.
    fn make_room(&mut self, name: &str) {
        self.data = self.data.take().map(|data| match data {
            Value::Object(members) if !members.contains_key(name) => Value::Object(members),
            other => json!({ VALUE: other }),
        });
    }

    /// The result as clients get it.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, Self> {
        if self.artifacts.is_empty() && self.for_user.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut data = self.members();
        if !self.artifacts.is_empty() {
            data.insert(ARTIFACTS.to_owned(), json!(self.artifacts));
        }
        if !self.for_user.is_empty() {
            data.insert(FOR_USER.to_owned(), json!(self.for_user));
        }
        Cow::Owned(self.clone_with(Some(data.into())))
    }

    /// Serialises a result as clients get it.
    ///
    /// # Errors
    /// The serialiser's.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
    pub(crate) fn serialize_shown<S: Serializer>(
        result: &&Self,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        result.shown().serialize(serializer)
    }

    /// The members of its data.
    pub(super) fn members(&self) -> Map<String, Value> {
        match &self.data {
            None => Map::new(),
            Some(Value::Object(members)) => members.clone(),
            Some(other) => Map::from_iter([(VALUE.to_owned(), other.clone())]),
        }
    }

    /// The same with other data, and nothing beside it.
    pub(super) fn clone_with(&self, data: Option<Value>) -> Self {
        Self {
            success: self.success,
            data,
            next_action: self.next_action,
            clarification: self.clarification.clone(),
            error: self.error.clone(),
            instruction_for_ai: self.instruction_for_ai.clone(),
            files: Vec::new(),
            artifacts: Vec::new(),
            for_user: Vec::new(),
            uncertain: self.uncertain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolFile;

    fn image() -> ListedFile {
        ToolFile { name: None, mime_type: "image/png".into(), bytes: vec![0; 9].into() }.listed()
    }

    fn listed() -> Value {
        json!([{ "kind": "image", "mime_type": "image/png", "bytes": 9 }])
    }

    #[track_caller]
    fn check(data: Value, shown_as: Value, told_as: Value) {
        let mut result = ToolResult::data(data).with_texts_for_user(vec!["Hello.".to_owned()]);
        result.list_files(vec![image()]);
        let stored = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<ToolResult>(&stored).unwrap(), result);
        assert_eq!(result.shown().data, Some(shown_as));
        assert_eq!(result.told(10_000).data, Some(told_as));
    }

    #[test]
    fn clients_find_files_and_texts_for_the_user_in_the_data() {
        let told = json!(["[image image/png, 9 bytes, artifact a1]"]);
        check(
            json!({ "text": "See." }),
            json!({ "text": "See.", "artifacts": listed(), "for_user": ["Hello."] }),
            json!({ "text": "See.", "artifacts": told }),
        );
        check(
            json!([1]),
            json!({ "value": [1], "artifacts": listed(), "for_user": ["Hello."] }),
            json!({ "value": [1], "artifacts": told }),
        );
    }

    #[test]
    fn data_with_members_of_these_names_makes_room() {
        let told = json!(["[image image/png, 9 bytes, artifact a1]"]);
        for own in [json!({ "artifacts": ["a vase"] }), json!({ "for_user": "Alice" })] {
            check(
                own.clone(),
                json!({ "value": own, "artifacts": listed(), "for_user": ["Hello."] }),
                json!({ "value": own, "artifacts": told }),
            );
        }
    }

    #[test]
    fn members_of_these_names_are_data_if_a_tool_returns_them() {
        for data in [json!({ "for_user": "Alice", "id": 7 }), json!({ "artifacts": listed() })] {
            let result = ToolResult::from_value(data.clone());
            assert_eq!(result.told(10_000).data, Some(data.clone()));
            assert_eq!(result.shown().data, Some(data));
        }
    }

    #[test]
    fn a_notice_is_shown_to_the_user_and_told_to_the_model() {
        let result = ToolResult::data(json!({ "id": 7 })).with_instruction("Be kind.");
        let result = result.with_notice("It was late.".to_owned());
        assert_eq!(result.shown().data, Some(json!({ "id": 7, "for_user": ["It was late."] })));
        let told = result.told(10_000).into_owned();
        assert_eq!(told.data, Some(json!({ "id": 7 })));
        let instruction = "Tell the user: It was late. Be kind.";
        assert_eq!(told.instruction_for_ai.as_deref(), Some(instruction));
    }
}
