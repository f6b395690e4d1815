//! Methods, and what they say about a request's effects (RFC 9110, section 9.2).

use serde::Serialize;

use crate::tools::Policy;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    /// All methods that a tool can have.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::Options, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// Its name, in capital letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The method of this name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }

    /// Whether it only reads. `OPTIONS` is not among these although the standard calls it safe: no
    /// API reads with it, so being careful costs nothing.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }

    /// Whether repeating a request changes nothing more.
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        self.is_read() || matches!(self, Self::Put | Self::Delete)
    }

    /// The policy of a tool that sends requests with this method. `has_idempotency_header`: the
    /// server recognizes a repeated request by a header.
    #[must_use]
    pub const fn policy(self, has_idempotency_header: bool) -> Policy {
        let mutates = !self.is_read();
        Policy {
            mutates,
            destructive: matches!(self, Self::Delete),
            idempotent: mutates && (self.is_idempotent() || has_idempotency_header),
            open_world: true,
            ..Policy::NONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_names_in_any_case() {
        for method in Method::ALL {
            assert_eq!(Method::named(&method.name().to_lowercase()), Some(method));
        }
        for other in ["", "TRACE", "CONNECT", "GET "] {
            assert_eq!(Method::named(other), None, "{other}");
        }
    }

    #[track_caller]
    fn check(methods: &[Method], mutates: bool, destructive: bool, idempotent: bool) {
        for method in methods {
            let policy = method.policy(false);
            let found = (policy.mutates, policy.destructive, policy.idempotent);
            assert_eq!(found, (mutates, destructive, idempotent), "{method:?}");
            assert!(policy.open_world);
            let Policy { idempotent, .. } = method.policy(true);
            assert_eq!(idempotent, mutates, "with a header, every change is idempotent");
        }
    }

    #[test]
    fn policies_follow_the_method() {
        check(&[Method::Get, Method::Head], false, false, false);
        check(&[Method::Options, Method::Post, Method::Patch], true, false, false);
        check(&[Method::Put], true, false, true);
        check(&[Method::Delete], true, true, true);
    }
}
