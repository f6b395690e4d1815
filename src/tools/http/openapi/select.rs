//! Which operations of a document are meant.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::tools::source::Glob;

/// A choice of operations: `getPet*` by id, `tag:store` by tag, `GET /user/*` by method and path.
#[derive(Debug, Clone, PartialEq)]
pub enum Select {
    /// By `operationId`.
    Id(Glob),
    /// By one of its tags.
    Tag(Glob),
    /// By method, in capital letters or `*`, and path.
    Path(Glob, Glob),
}

impl Select {
    /// Reads a choice as an operator writes it.
    #[must_use]
    pub fn parse(written: &str) -> Self {
        if let Some(tag) = written.strip_prefix("tag:") {
            return Self::Tag(Glob::new(tag));
        }
        match written.split_once(' ') {
            Some((method, path)) => {
                Self::Path(Glob::new(method.to_ascii_uppercase()), Glob::new(path.trim_start()))
            }
            None if written.starts_with('/') => Self::Path(Glob::new("*"), Glob::new(written)),
            None => Self::Id(Glob::new(written)),
        }
    }

    /// Whether it has no `*` and no `?`, but for any method of a path.
    pub(super) fn is_plain(&self) -> bool {
        match self {
            Self::Id(glob) | Self::Tag(glob) | Self::Path(_, glob) => glob.is_plain(),
        }
    }

    /// Whether it names operations of this path.
    pub(super) fn is_of_path(&self, path: &str) -> bool {
        matches!(self, Self::Path(_, glob) if glob.matches(path))
    }

    /// This operation, as a choice of this kind would name it.
    pub(super) fn names_of<'t>(
        &self,
        name: &str,
        tags: impl Iterator<Item = &'t str>,
        method: &str,
        path: &str,
    ) -> Vec<String> {
        match self {
            Self::Id(_) => vec![name.to_owned()],
            Self::Tag(_) => tags.map(|tag| format!("tag:{tag}")).collect(),
            Self::Path(of_method, _) if of_method.is_name("*") => vec![path.to_owned()],
            Self::Path(..) => vec![format!("{method} {path}")],
        }
    }

    /// Whether it means this operation. `name` is its id, or the name used in place of one.
    pub(super) fn means<'t>(
        &self,
        name: &str,
        mut tags: impl Iterator<Item = &'t str>,
        method: &str,
        path: &str,
    ) -> bool {
        match self {
            Self::Id(glob) => glob.matches(name),
            Self::Tag(glob) => tags.any(|tag| glob.matches(tag)),
            Self::Path(of_method, of_path) => of_method.matches(method) && of_path.matches(path),
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(glob) => write!(f, "{glob}"),
            Self::Tag(glob) => write!(f, "tag:{glob}"),
            Self::Path(method, path) if method.is_name("*") => write!(f, "{path}"),
            Self::Path(method, path) => write!(f, "{method} {path}"),
        }
    }
}

impl Serialize for Select {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_chosen_by_id_tag_or_path() {
        for (written, is_meant) in [
            ("getPet*", true),
            ("getPet", false),
            ("tag:pets", true),
            ("tag:p*", true),
            ("tag:store", false),
            ("GET /pets/*", true),
            ("get /pets/{id}", true),
            ("* /pets/*", true),
            ("/pets/*", true),
            ("POST /pets/*", false),
            ("GET /users/*", false),
        ] {
            let select = Select::parse(written);
            let tags = ["read", "pets"].into_iter();
            assert_eq!(
                select.means("getPetById", tags, "GET", "/pets/{id}"),
                is_meant,
                "{written}"
            );
        }
    }

    #[test]
    fn a_choice_is_shown_as_it_is_written() {
        for written in ["getPet*", "tag:store", "GET /user/*", "/user/*"] {
            assert_eq!(Select::parse(written).to_string(), written);
        }
    }
}
