//! The arguments of `tether chat`.

use clap::Args;
use url::Url;

use crate::session;

/// Options of `tether chat`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ChatArgs {
    /// Address of the gateway
    #[arg(long, value_name = "URL", default_value = DEFAULT_URL, value_parser = gateway_url)]
    pub(super) url: Url,
    /// Session to resume; a new one begins if there is none with this id
    #[arg(long, value_name = "ID", value_parser = session_id)]
    pub(super) session: Option<String>,
}

/// Where `tether` listens by default.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The variable with the key of a gateway that requires one. There is no option for it, because
/// arguments can be read by every user of a machine.
pub(super) const KEY_VARIABLE: &str = "TETHER_API_KEY";

const AFTER_HELP: &str = "\
At a terminal, each line is a prompt; /help lists the commands. Ctrl-C cancels a turn.
Otherwise, all of standard input is one prompt:
  echo 'What is 17 * 23?' | tether chat

Standard output gets the answer; tool calls, reasoning, questions and errors go to standard error.

Environment:
  TETHER_API_KEY  Key of the gateway, if it requires one
  NO_COLOR        No colours

Exit status: 0 success, 1 the turn failed, 2 bad arguments";

fn gateway_url(text: &str) -> Result<Url, String> {
    let expected = "expected a URL, such as http://127.0.0.1:8080";
    let mut url = Url::parse(text).map_err(|_| expected.to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(expected.to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("a URL has no place for a key; set {KEY_VARIABLE}"));
    }
    url.set_query(None);
    url.set_fragment(None);
    // The addresses of the API are below this one.
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn session_id(text: &str) -> Result<String, String> {
    // In an address, these two stand for a folder.
    if matches!(text, "." | "..") {
        return Err("expected an id other than . and ..".to_owned());
    }
    if session::is_name(text) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 128 of the characters A-Z a-z 0-9 . _ : -".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_a_folder() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("https://example.com/tether", "https://example.com/tether/"),
            ("https://example.com/tether/?a=b#c", "https://example.com/tether/"),
        ] {
            assert_eq!(gateway_url(text).unwrap().as_str(), expected);
        }
        for text in ["", "localhost:8080", "127.0.0.1:8080", "ftp://example.com", "http://"] {
            assert!(gateway_url(text).unwrap_err().contains("such as"), "{text}");
        }
        assert!(gateway_url("https://u:p@example.com").unwrap_err().contains(KEY_VARIABLE));
    }

    #[test]
    fn session_ids_are_those_of_the_api() {
        let longest = "x".repeat(128);
        for id in ["a", "...", "A.b_c:d-9", &longest] {
            assert_eq!(session_id(id).unwrap(), id);
        }
        for id in ["", ".", "..", "a b", "ä", "a/b", &format!("{longest}x")] {
            assert!(session_id(id).is_err(), "{id}");
        }
    }
}
