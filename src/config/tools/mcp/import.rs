//! `import`: the MCP servers of another program's `mcp.json`.
//!
//! ```text
//!   {"mcpServers": {"files": {"command": "npx", "args": ["-y", "server-filesystem"]}}}
//!   {"servers": {"search": {"type": "http", "url": "https://mcp.example.org"}}}      VS Code
//! ```
//! The file is not ours. A server in it that cannot be used is left out with its reason; keys that
//! we do not know are pointed out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use url::Url;

use super::McpConfig;
use crate::config::Secret;
use crate::config::Shown;
use crate::config::surroundings::Surroundings;
use crate::config::tools::address::has_login;
use crate::config::values::{is_entry_name, is_header_name, is_header_value};
use crate::limits::config::ENTRY_NAME_BYTES_MAX;

/// An entry that imports a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportConfig {
    /// The file, as it is written.
    pub path: PathBuf,
    /// The settings of each of its servers.
    pub(super) each: McpConfig,
}

impl ImportConfig {
    /// Reads the file. If it cannot be read, or is not such a file, that is a warning: its owner
    /// is another program, which must not keep the gateway from starting.
    pub(in crate::config) fn servers(&self, around: &Surroundings<'_>) -> Imported {
        let path = around.path(&self.path);
        // A program that runs in another folder may get it.
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let folder = absolute.parent().unwrap_or(around.folder);
        let around = Surroundings { folder, ..*around };
        let imported = (around.read)(&path).and_then(|text| read(&text, &self.each, &around));
        imported.unwrap_or_else(|message| Imported {
            servers: Vec::new(),
            warnings: vec![format!("no servers are imported: {message}")],
        })
    }
}

/// What a file yields.
#[derive(Debug, Default, PartialEq)]
pub(in crate::config) struct Imported {
    pub(in crate::config) servers: Vec<McpConfig>,
    /// What was ignored, a sentence each.
    pub(in crate::config) warnings: Vec<String>,
}

/// Keys that programs keep for themselves: they do not change what a server offers.
const IGNORED: [&str; 6] = ["description", "name", "icon", "gallery", "version", "timeout"];

/// Reads the text of a file.
///
/// # Errors
/// If it is not such a file.
fn read(text: &str, each: &McpConfig, around: &Surroundings<'_>) -> Result<Imported, String> {
    let options = jsonc_parser::ParseOptions::default();
    let file: Value = jsonc_parser::parse_to_serde_value(text, &options)
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| file.get(*key)?.as_object());
    let servers = servers.ok_or("it has neither `mcpServers` nor `servers` at its top")?;
    let mut imported = Imported::default();
    for (name, server) in servers {
        let Value::Object(keys) = server else {
            imported.warnings.push(format!("{name} is left out: it is not an object"));
            continue;
        };
        if is_off(keys) {
            continue;
        }
        let mut reader = Reader { name, keys, around, warnings: &mut imported.warnings };
        let server = reader.server(each);
        imported.servers.push(server);
    }
    Ok(imported)
}

fn is_off(keys: &Map<String, Value>) -> bool {
    keys.get("disabled") == Some(&Value::Bool(true))
        || keys.get("enabled") == Some(&Value::Bool(false))
}

/// The name of an entry that is closest to the file's.
fn entry_name(name: &str) -> String {
    let char = |char: char| match char.to_ascii_lowercase() {
        char if char.is_ascii_alphanumeric() || char == '-' => char,
        _ => '_',
    };
    let taken: String = name.chars().map(char).collect();
    let taken = taken.trim_start_matches(['_', '-']);
    taken.chars().take(ENTRY_NAME_BYTES_MAX).collect()
}

/// Reads one server.
struct Reader<'a> {
    name: &'a str,
    keys: &'a Map<String, Value>,
    around: &'a Surroundings<'a>,
    warnings: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn server(&mut self, each: &McpConfig) -> McpConfig {
        let name = entry_name(self.name);
        let prefix = format!("{name}__");
        let mut server = McpConfig { name, prefix, ..each.clone() };
        if let Err(reason) = self.fill(&mut server) {
            server.problem = Some(reason);
        }
        self.warn_of_unknown_keys();
        server
    }

    fn fill(&self, server: &mut McpConfig) -> Result<(), String> {
        if !is_entry_name(&server.name) {
            return Err(format!("{:?} cannot be the name of an entry: rename it", self.name));
        }
        let kind = self.text("type")?.or(self.text("transport")?);
        if kind.as_deref() == Some("sse") {
            return Err(
                "it speaks HTTP+SSE, which MCP has replaced: ask its vendor for the address \
                        for streamable HTTP, which often ends in /mcp, and set `type` to `http`"
                    .to_owned(),
            );
        }
        // Cursor and VS Code write `url`, Windsurf and the Gemini CLI the others.
        let url_key =
            ["url", "serverUrl", "httpUrl"].into_iter().find(|key| self.keys.contains_key(*key));
        let url_key = url_key.unwrap_or("url");
        match (self.text("command")?, self.text(url_key)?) {
            (Some(command), None) => {
                let program = std::iter::once(command).chain(self.texts("args")?).collect();
                server.command = Shown::new(program, self.written_command());
                server.env = self.variables()?;
                server.cwd = self.text("cwd")?.map(|cwd| self.around.path(Path::new(&cwd)));
            }
            (None, Some(url)) => {
                (server.sandbox, server.env_inherit) = (None, Vec::new());
                let known =
                    Url::parse(&url).ok().filter(|it| matches!(it.scheme(), "http" | "https"));
                let known = known.ok_or("its `url` is not an http or https URL")?;
                if has_login(&known) {
                    let why = "its `url` has a user or a password: `headers` can send them, as `Authorization`";
                    return Err(why.to_owned());
                }
                server.url = Some(Shown::new(known, self.keys[url_key].clone()));
                server.headers = self.headers()?;
            }
            (Some(_), Some(_)) => return Err("it has both `command` and `url`".to_owned()),
            (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
        }
        Ok(())
    }

    /// The program and its arguments, without the values of variables.
    fn written_command(&self) -> Value {
        let arguments = self.keys.get("args").and_then(Value::as_array);
        self.keys
            .get("command")
            .into_iter()
            .chain(arguments.into_iter().flatten())
            .cloned()
            .collect()
    }

    /// The variables of `envFile`, and those of `env`, which win.
    fn variables(&self) -> Result<Vec<(String, Secret)>, String> {
        let mut variables = BTreeMap::new();
        if let Some(path) = self.text("envFile")? {
            let path = self.around.path(Path::new(&path));
            let shown = path.display();
            let text = (self.around.read)(&path)
                .map_err(|error| format!("its envFile {shown}: {error}"))?;
            for pair in dotenvy::from_read_iter(text.as_bytes()) {
                let (name, value) = pair
                    .map_err(|_| format!("its envFile {shown} has an invalid NAME=VALUE line"))?;
                variables.insert(name, Secret::new(value));
            }
        }
        variables.extend(self.secrets("env")?);
        Ok(variables.into_iter().collect())
    }

    fn secrets(&self, key: &str) -> Result<Vec<(String, Secret)>, String> {
        let Some(value) = self.keys.get(key).filter(|value| !value.is_null()) else {
            return Ok(Vec::new());
        };
        let pairs = value.as_object().ok_or_else(|| format!("its `{key}` is not an object"))?;
        let pairs = pairs.iter().filter(|(_, value)| !value.is_null());
        pairs
            .map(|(name, value)| Ok((name.clone(), Secret::new(self.expanded(key, value)?))))
            .collect()
    }

    fn headers(&self) -> Result<Vec<(String, Secret)>, String> {
        let headers = self.secrets("headers")?;
        for (name, value) in &headers {
            if !is_header_name(name) {
                return Err(format!(
                    "its `headers` have {name:?}, which cannot be a header's name"
                ));
            }
            if !is_header_value(value.reveal()) {
                return Err(format!(
                    "the value of {name} in its `headers` is not of visible ASCII characters and spaces"
                ));
            }
        }
        Ok(headers)
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let Some(value) = self.keys.get(key).filter(|value| !value.is_null()) else {
            return Ok(Vec::new());
        };
        let values = value.as_array().ok_or_else(|| format!("its `{key}` is not a list"))?;
        values.iter().map(|value| self.expanded(key, value)).collect()
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        let value = self.keys.get(key).filter(|value| !value.is_null());
        value.map(|value| self.expanded(key, value)).transpose()
    }

    /// A scalar as text, with its references filled in.
    fn expanded(&self, key: &str, value: &Value) -> Result<String, String> {
        match value {
            Value::String(written) => self.expand(written),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            _ => Err(format!("its `{key}` has something that is not text")),
        }
    }

    fn expand(&self, written: &str) -> Result<String, String> {
        let (mut text, mut rest) = (String::new(), written);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((reference, after)) = after.split_once('}') else { break };
            text.push_str(before);
            text.push_str(&self.reference(reference)?);
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }

    fn reference(&self, reference: &str) -> Result<String, String> {
        match reference {
            "userHome" => return self.variable("HOME", None),
            "workspaceFolder" => return Ok(self.around.folder.display().to_string()),
            _ => {}
        }
        if let Some(id) = reference.strip_prefix("input:") {
            let char = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
            let name: String = id.chars().map(char).collect::<String>().to_ascii_uppercase();
            return Err(format!(
                "nobody can be prompted for `${{input:{id}}}`: set the variable {name}, and write \
                 `${{env:{name}}}` instead"
            ));
        }
        let variable = reference.strip_prefix("env:").unwrap_or(reference);
        match variable.split_once(":-") {
            Some((name, default)) => self.variable(name, Some(default)),
            None => self.variable(variable, None),
        }
    }

    fn variable(&self, name: &str, default: Option<&str>) -> Result<String, String> {
        let value = (self.around.environment)(name).and_then(|value| value.into_string().ok());
        match (value.filter(|value| default.is_none() || !value.is_empty()), default) {
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(format!("the environment variable {name} is not set")),
        }
    }

    fn warn_of_unknown_keys(&mut self) {
        const KNOWN: [&str; 13] = [
            "command",
            "args",
            "env",
            "envFile",
            "cwd",
            "url",
            "serverUrl",
            "httpUrl",
            "headers",
            "type",
            "transport",
            "disabled",
            "enabled",
        ];
        let is_known = |key: &str| KNOWN.contains(&key) || IGNORED.contains(&key);
        let unknown: Vec<&str> =
            self.keys.keys().map(String::as_str).filter(|key| !is_known(key)).collect();
        if !unknown.is_empty() {
            let keys = unknown.join("`, `");
            self.warnings.push(format!("{}: `{keys}` is ignored", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::config::Mistake;
    use crate::config::raw::Node;
    use crate::config::reader::Keys;
    use crate::config::tools::mcp;

    fn each() -> McpConfig {
        let mut mistakes: Vec<Mistake> = Vec::new();
        mcp::import(Keys::new(String::new(), &Node::empty(), &mut mistakes)).each
    }

    fn environment(name: &str) -> Option<OsString> {
        match name {
            "TOKEN" => Some("t0k".into()),
            "HOME" => Some("/home/ada".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        }
    }

    fn imported(text: &str) -> Result<Imported, String> {
        let around = Surroundings {
            folder: Path::new("/srv"),
            environment: &environment,
            read: &|path| match path.to_str() {
                Some("/srv/.env") => Ok("# keys\nKEY='from file'\nBOTH=file\n".to_owned()),
                _ => Err("cannot read the file: No such file".to_owned()),
            },
        };
        read(text, &each(), &around)
    }

    fn one(server: &str) -> McpConfig {
        let file = format!("{{\"mcpServers\": {{\"one\": {server}}}}}");
        imported(&file).unwrap().servers.remove(0)
    }

    #[track_caller]
    fn check_left_out(server: &str, reason: &str) {
        let problem = one(server).problem.unwrap();
        assert!(problem.contains(reason), "{problem}");
    }

    #[test]
    fn programs_and_addresses_are_read() {
        let files = one(
            r#"{"command": "npx", "args": ["-y", "server", 7], "cwd": "docs", "env": {"A": "${TOKEN}", "B": 1}}"#,
        );
        assert_eq!(*files.command.reveal(), ["npx", "-y", "server", "7"]);
        assert_eq!((&*files.name, &*files.prefix), ("one", "one__"));
        assert_eq!(files.cwd, Some(PathBuf::from("/srv/docs")));
        let env: Vec<_> = files.env.iter().map(|(name, it)| (&**name, it.reveal())).collect();
        assert_eq!(env, [("A", "t0k"), ("B", "1")]);
        let search = one(
            r#"{"type": "http", "url": "https://a.example/mcp", "headers": {"X": "Bearer ${env:TOKEN}"}}"#,
        );
        assert_eq!(search.url.unwrap().reveal().as_str(), "https://a.example/mcp");
        assert_eq!(search.headers[0].1.reveal(), "Bearer t0k");
        assert!(search.sandbox.is_none() && search.problem.is_none());
    }

    #[test]
    fn vs_codes_file_may_have_comments_and_trailing_commas() {
        let file = "{\n // mine\n \"servers\": {\"a\": {\"command\": \"x\",},}, /* ask */ \"inputs\": [],\n}";
        assert_eq!(imported(file).unwrap().servers.len(), 1);
    }

    #[test]
    fn references_are_filled_in() {
        for (written, text) in [
            ("${TOKEN}", "t0k"),
            ("a${env:TOKEN}b${TOKEN}", "at0kbt0k"),
            ("${NONE:-x}", "x"),
            ("${env:TOKEN:-x}", "t0k"),
            ("${env:NONE:-x}", "x"),
            ("${EMPTY:-x}", "x"),
            ("${EMPTY}", ""),
            ("${userHome}/docs", "/home/ada/docs"),
            ("${workspaceFolder}/docs", "/srv/docs"),
            ("$HOME ${open", "$HOME ${open"),
        ] {
            let server = one(&format!("{{\"command\": \"{written}\"}}"));
            assert_eq!(*server.command.reveal(), [text], "{written}");
            let shown = serde_json::to_value(&server.command).unwrap();
            assert_eq!(shown[0], *written, "the value may be a secret");
        }
    }

    #[test]
    fn paths_may_begin_in_the_users_home() {
        for (written, path) in
            [("~/docs", "/home/ada/docs"), ("docs", "/srv/docs"), ("/docs", "/docs")]
        {
            let server = one(&format!(r#"{{"command": "x", "args": null, "cwd": "{written}"}}"#));
            assert_eq!(server.cwd.as_deref(), Some(Path::new(path)), "{written}");
        }
    }

    #[test]
    fn an_address_has_one_of_several_names() {
        for key in ["url", "serverUrl", "httpUrl"] {
            let server = one(&format!(r#"{{"{key}": "https://a.example/mcp"}}"#));
            assert_eq!(server.problem, None, "{key}");
            assert!(server.url.is_some(), "{key}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_used_says_why() {
        check_left_out(r#"{"command": "x", "args": ["${NONE}"]}"#, "NONE is not set");
        check_left_out(
            r#"{"command": "x", "env": {"A": "${input:api-key}"}}"#,
            "set the variable API_KEY, and write `${env:API_KEY}`",
        );
        check_left_out(r#"{"type": "sse", "url": "https://a.example/sse"}"#, "streamable HTTP");
        check_left_out(r#"{"command": "x", "url": "https://a.example"}"#, "both");
        check_left_out("{}", "neither");
        check_left_out(r#"{"url": "ftp://a.example"}"#, "not an http or https URL");
        check_left_out(r#"{"url": "https://ada:x@a.example"}"#, "`headers` can send them");
        let header = |name: &str, value: &str| {
            format!(r#"{{"url": "https://a.example", "headers": {{"{name}": "{value}"}}}}"#)
        };
        check_left_out(&header("a b", "x"), "cannot be a header's name");
        check_left_out(&header("a", "\u{fc}"), "the value of a in its `headers`");
        check_left_out(r#"{"command": "x", "args": "y"}"#, "`args` is not a list");
        check_left_out(r#"{"command": "x", "envFile": "none"}"#, "No such file");
        let nameless = imported(r#"{"mcpServers": {"日本": {"command": "x"}}}"#).unwrap();
        assert!(nameless.servers[0].problem.as_ref().unwrap().contains("rename it"));
    }

    #[test]
    fn variables_of_a_file_give_way_to_those_of_the_entry() {
        let server = one(r#"{"command": "x", "envFile": ".env", "env": {"BOTH": "entry"}}"#);
        let env: Vec<_> = server.env.iter().map(|(name, it)| (&**name, it.reveal())).collect();
        assert_eq!(env, [("BOTH", "entry"), ("KEY", "from file")]);
    }

    #[test]
    fn names_become_those_of_entries() {
        let file =
            r#"{"mcpServers": {"GitHub Copilot!": {"command": "x"}, "_a": {"command": "x"}}}"#;
        let names: Vec<_> = imported(file).unwrap().servers.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["github_copilot_", "a"]);
    }

    #[test]
    fn what_is_switched_off_is_not_there_and_unknown_keys_are_pointed_out() {
        let file = r#"{"mcpServers": {
            "off": {"command": "x", "disabled": true}, "also": {"command": "x", "enabled": false},
            "on": {"command": "x", "disabled": false, "autoApprove": ["a"], "timeout": 5}, "odd": 1}}"#;
        let Imported { servers, warnings } = imported(file).unwrap();
        assert_eq!(servers.len(), 1);
        assert_eq!(
            warnings,
            ["on: `autoApprove` is ignored", "odd is left out: it is not an object"]
        );
    }

    #[test]
    fn another_file_is_refused() {
        assert!(imported("{").unwrap_err().starts_with("it is not JSON"));
        assert!(imported("{}").unwrap_err().starts_with("it has neither"));
        assert!(imported(&"[".repeat(100_000)).unwrap_err().starts_with("it is not JSON"));
    }
}
