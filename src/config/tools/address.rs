//! Addresses of servers: URLs, and ranges of addresses.

use serde::Serializer;
use url::Url;

use super::shown::{Shown, as_written};
use crate::config::raw::Node;
use crate::config::reader::{Refused, text};
use crate::tools::outbound::{Cidr, CidrError};

/// Reads a web address.
pub(super) fn web(node: &Node) -> Result<Url, Refused> {
    let expected = "an http or https URL without a user or password";
    let url = Url::parse(text(node)?).map_err(|_| Refused::hidden(node, expected))?;
    if matches!(url.scheme(), "http" | "https") && !has_login(&url) {
        return Ok(url);
    }
    Err(Refused::hidden(node, expected))
}

/// The same, shown as written.
pub(super) fn web_as_written(node: &Node) -> Result<Option<Shown<Url>>, Refused> {
    Ok(Some(Shown::new(web(node)?, as_written(node))))
}

pub(super) fn has_login(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

pub(in crate::config) fn range(node: &Node) -> Result<Cidr, Refused> {
    text(node)?.parse().map_err(|error| {
        let expected = match error {
            CidrError::Form => {
                "a range of addresses, such as `10.0.0.0/8`, `fd00::/8` or `127.0.0.1`".to_owned()
            }
            CidrError::Length(most) => format!("a length of at most {most} after the slash"),
            CidrError::Inside(first, prefix) => format!(
                "`{first}/{prefix}`, or the address alone: it has bits set after the first {prefix}, so it is not \
                 clear which is meant"
            ),
        };
        Refused::new(node, expected)
    })
}

pub(in crate::config) fn ranges<S: Serializer>(
    ranges: &[Cidr],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ranges.iter().map(ToString::to_string))
}
