//! Files that a configuration names: where they are, and those of MCP servers, which other programs keep too.

use std::fs;

use tempfile::TempDir;

use super::*;

/// Loads a configuration that stands beside these files.
fn load_beside(text: &str, files: &[(&str, &str)]) -> (TempDir, Result<Config, ConfigError>) {
    load_overridden(text, files, &Overrides::default())
}

fn load_overridden(
    text: &str,
    files: &[(&str, &str)],
    overrides: &Overrides,
) -> (TempDir, Result<Config, ConfigError>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().join("tether.yml");
    fs::write(&path, text).unwrap();
    let config = config::load(Some(&path), overrides);
    (folder, config)
}

fn names(config: &Config) -> Vec<&str> {
    config.tools.mcp.iter().map(|server| &*server.name).collect()
}

const FILES: &str = r#"{"mcpServers": {"files": {"command": "npx", "args": ["files"]}}}"#;

#[test]
fn servers_of_a_file_join_those_of_the_configuration() {
    let text = "tools: {mcp: [{import: mcp.json, trust: true, deny: [write_*]}, {name: own, command: [x]}]}";
    let (_folder, config) = load_beside(text, &[("mcp.json", FILES)]);
    let config = config.unwrap();
    assert_eq!(names(&config), ["own", "files"]);
    let [own, files] = &*config.tools.mcp else { panic!("{config:?}") };
    assert_eq!(*files.command.reveal(), ["npx", "files"]);
    assert!(files.trust && files.deny.len() == 1 && files.prefix == "files__");
    assert!(!own.trust);
}

#[test]
fn the_effective_configuration_has_them_as_entries() {
    let (_folder, config) =
        load_beside("tools: {mcp: [{import: mcp.json}]}", &[("mcp.json", FILES)]);
    let config = config.unwrap();
    assert_eq!(load(&config.to_yaml().unwrap()), Ok(config));
}

#[test]
fn a_name_that_is_taken_stays_with_its_first_entry() {
    let text = "tools: {mcp: [{import: a.json}, {import: b.json}, {name: own, command: [x]}]}";
    let b = FILES.replace("npx", "second");
    let a = FILES.replace("}}}", "}, \"own\": {\"command\": \"other\"}}}");
    let (_folder, config) = load_beside(text, &[("a.json", &a), ("b.json", &b)]);
    let config = config.unwrap();
    assert_eq!(names(&config), ["own", "files"]);
    assert_eq!(*config.tools.mcp[1].command.reveal(), ["npx", "files"]);
    assert_eq!(
        config.warnings(),
        [
            "a.json: own is left out: there is already an entry with this name",
            "b.json: files is left out: there is already an entry with this name"
        ]
    );
}

#[test]
fn a_server_that_cannot_be_used_costs_nothing_but_itself() {
    let file = FILES
        .replace("}}}", "}, \"old\": {\"type\": \"sse\", \"url\": \"https://a.example/sse\"}}}");
    let (_folder, config) =
        load_beside("tools: {mcp: [{import: mcp.json}]}", &[("mcp.json", &file)]);
    let config = config.unwrap();
    assert_eq!(names(&config), ["files", "old"]);
    assert!(config.tools.mcp[1].problem.as_ref().unwrap().contains("streamable HTTP"));
    assert_eq!(names(&load(&config.to_yaml().unwrap()).unwrap()), ["files"]);
}

#[test]
fn a_file_that_cannot_be_read_keeps_nothing_from_starting() {
    let text = "tools: {mcp: [{import: mcp.json}, {name: own, command: [x]}]}";
    let warning = |files: &[(&str, &str)]| {
        let (_folder, config) = load_beside(text, files);
        let config = config.unwrap();
        assert_eq!(names(&config), ["own"]);
        let [warning] = &*config.warnings() else { panic!("{:?}", config.warnings()) };
        warning.strip_prefix("mcp.json: no servers are imported: ").unwrap().to_owned()
    };
    assert_eq!(warning(&[]), "cannot read the file: No such file or directory (os error 2)");
    assert!(warning(&[("mcp.json", "{")]).contains("it is not JSON"));
    assert!(warning(&[("mcp.json", "{}")]).contains("neither `mcpServers` nor `servers`"));
    let most = 1 << 20;
    assert!(warning(&[("mcp.json", &" ".repeat(most))]).contains("it has neither"));
    assert!(warning(&[("mcp.json", &" ".repeat(most + 1))]).contains("longer than 1048576 bytes"));
}

#[test]
fn what_belongs_to_one_server_is_refused_for_a_file() {
    for key in [
        "name: a",
        "command: [x]",
        "url: 'https://a.example'",
        "prefix: a__",
        "headers: {A: b}",
        "env: {A: b}",
        "cwd: /",
        "auth: {client_id: a}",
        "pin: x",
    ] {
        let told = load(&format!("tools: {{mcp: [{{import: mcp.json, {key}}}]}}")).unwrap_err();
        assert!(told.to_string().contains("does not apply to an import"), "{told}");
    }
}

#[test]
fn files_that_a_configuration_names_are_beside_it() {
    let text = "server: {tls: {cert: c.pem, key: /k.pem}}\n\
                sessions: {embedded: {path: s.db}}";
    let (folder, config) = load_beside(text, &[]);
    let config = config.unwrap();
    let tls = config.server.tls.unwrap();
    assert_eq!((tls.cert, tls.key), (folder.path().join("c.pem"), PathBuf::from("/k.pem")));
    assert_eq!(config.sessions.embedded.path, folder.path().join("s.db"));

    let text = "server: {tls: {cert: /c.pem, key: k.pem}}\n\
                sessions: {redis: {url: \"rediss://h\", ca_file: a.pem, cert_file: c.pem, key_file: k.pem}}";
    let (folder, config) = load_beside(text, &[]);
    let config = config.unwrap();
    let tls = config.server.tls.unwrap();
    assert_eq!((tls.cert, tls.key), (PathBuf::from("/c.pem"), folder.path().join("k.pem")));
    let redis = config.sessions.redis;
    for (file, name) in
        [(redis.ca_file, "a.pem"), (redis.cert_file, "c.pem"), (redis.key_file, "k.pem")]
    {
        assert_eq!(file.unwrap(), folder.path().join(name));
    }
}

/// As any other file on a command line.
#[test]
fn a_folder_on_the_command_line_is_where_the_gateway_was_started() {
    let overrides = Overrides { state: Some("rel".into()), ..Overrides::default() };
    for text in ["", "sessions: {embedded: {path: s.db}}"] {
        let (_folder, config) = load_overridden(text, &[], &overrides);
        assert_eq!(config.unwrap().sessions.embedded.path, Path::new("rel/tether.db"));
    }
}
