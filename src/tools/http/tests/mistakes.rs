//! What operators are told about mistakes in their requests.

use super::*;

/// The only mistake: its key, and a part of its message.
#[track_caller]
fn check(written: &WrittenRequest, parameters: &Value, key: &str, says: &str) {
    let mistakes = RequestTemplate::read(written, parameters).unwrap_err();
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert_eq!(mistakes[0].key, key, "{mistakes:?}");
    assert!(mistakes[0].message.contains(says), "{mistakes:?}");
}

#[test]
fn methods_are_known() {
    let trace = WrittenRequest { method: "TRACE".into(), ..get("https://a.example/") };
    check(&trace, &json!({}), "method", "expected one of GET");
    let body = Some(WrittenBody::Text("t".into()));
    let head = WrittenRequest { method: "head".into(), body, ..get("https://a.example/") };
    check(&head, &json!({}), "body", "has no body");
}

#[test]
fn urls_have_placeholders_in_their_path_alone() {
    let x = &parameters(&["x!"]);
    for (url, says) in [
        ("{x}", "absolute"),
        ("/v1/{x}", "absolute"),
        ("{x}://a.example/", "scheme, host and port"),
        ("https://{x}/", "scheme, host and port"),
        ("https://{x}.example/", "scheme, host and port"),
        ("https://a.example:{x}/", "scheme, host and port"),
        ("https://{x}@a.example/", "scheme, host and port"),
        ("https://a.example/?q={x}", "under `query`"),
        ("https://a.example/#{x}", "never sent"),
        ("https://a.example/{x}/../b", ". or .."),
        ("https://a.example/%2E%2e/{x}", ". or .."),
        ("https://a.example\\{x}", "write /"),
        ("ftp://a.example/{x}", "http or https"),
        ("https://user:p@a.example/{x}", "Authorization"),
        ("https://1.2.3.4.5/{x}", "not a valid URL"),
        ("https:///{x}", "not a valid URL"),
    ] {
        check(&get(url), x, "url", says);
    }
}

#[test]
fn placeholders_are_parameters() {
    let x = &parameters(&["city!"]);
    check(&get("https://a.example/{ctiy}"), x, "url", "did you mean `city`?");
    check(&get("https://a.example/{other}"), x, "url", "write {{other}} for plain text");
    check(&get("https://a.example/{x}"), &json!({ "type": "object" }), "url", "no parameter `x`");
    let field =
        |value| WrittenRequest { query: pairs(&[("q", value)]), ..get("https://a.example/{city}") };
    check(&field(json!("{nowhere}")), x, "query.q", "no parameter `nowhere`");
    check(&field(json!(["{nowhere}"])), x, "query.q", "no parameter `nowhere`");
    check(&field(json!({})), x, "query.q", "expected text, a number");
    check(&field(json!(null)), x, "query.q", "expected text, a number");
    let body = |body| WrittenRequest { body: Some(body), ..get("https://a.example/{city}") };
    check(&body(WrittenBody::Json(json!([{ "a": "{b}" }]))), x, "body", "no parameter `b`");
    check(&body(WrittenBody::Text("{b}".into())), x, "body", "no parameter `b`");
    let form = WrittenBody::Form(pairs(&[("f", json!("{b}"))]));
    check(&body(form), x, "body.f", "no parameter `b`");
}

#[test]
fn what_cannot_vanish_has_to_be_required() {
    let optional = &parameters(&["x"]);
    check(&get("https://a.example/{x}"), optional, "url", "has to be required");
    let text = |text: &str| post(WrittenBody::Text(text.into()));
    check(&text("<{x}>"), optional, "body", "has to be required");
    RequestTemplate::read(&text("{x}"), optional).unwrap();
}

#[test]
fn every_parameter_is_used() {
    let unused = &parameters(&["x!", "y"]);
    let key = "parameters.properties.y";
    check(&get("https://a.example/{x}"), unused, key, "no placeholder uses {y}");
}

#[test]
fn lists_and_objects_are_where_they_can_be_written() {
    let of_types = |kinds: Value| json!({ "type": "object", "properties": { "x": { "type": kinds } }, "required": ["x"] });
    let typed = |kind: &str| of_types(kind.into());
    let query = |value: &str| WrittenRequest {
        query: pairs(&[("q", json!(value))]),
        ..get("https://a.example/")
    };
    check(&query("{x}"), &typed("object"), "query.q", "only a JSON body");
    check(&get("https://a.example/{x}"), &typed("object"), "url", "only a JSON body");
    check(&query("-{x}"), &typed("array"), "query.q", "{x} alone");
    let either = of_types(json!(["string", "object"]));
    check(&query("{x}"), &either, "query.q", "only a JSON body");
    check(&query("-{x}"), &of_types(json!(["array", "null"])), "query.q", "{x} alone");
    RequestTemplate::read(&query("{x}"), &typed("array")).unwrap();
    let body = post(WrittenBody::Json(json!({ "o": "{x}" })));
    RequestTemplate::read(&body, &typed("object")).unwrap();
}

#[test]
fn headers_are_the_requests_own() {
    let header = |name: &str, value: &str| WrittenRequest {
        headers: pairs(&[(name, value.to_owned())]),
        ..get("https://a.example/")
    };
    let none = &json!({ "type": "object" });
    for name in ["Host", "content-length", "Transfer-Encoding", "Connection", "Accept-Encoding"] {
        check(&header(name, "x"), none, &format!("headers.{name}"), "itself, or never");
    }
    check(&header("X Key", "x"), none, "headers.X Key", "not the name of a header");
    check(&header("X-{x}", "x"), none, "headers.X-{x}", "not the name of a header");
    check(&header("X-Key", "ö"), none, "headers.X-Key", "only ASCII");
    check(&header("X-Key", "a\r\nb: c"), none, "headers.X-Key", "only ASCII");
    let twice = pairs(&[("X-Key", "1".to_owned()), ("x-key", "2".to_owned())]);
    let twice = WrittenRequest { headers: twice, ..get("https://a.example/") };
    check(&twice, none, "headers.x-key", "already there");
    let key = |name: &str| WrittenRequest {
        idempotency_header: Some(name.into()),
        ..header("X-Key", "1")
    };
    check(&key("x-key"), none, "idempotency_header", "already there");
    check(&key("Host"), none, "idempotency_header", "itself, or never");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let written = WrittenRequest {
        method: "FETCH".into(),
        query: pairs(&[("q", json!("{b}"))]),
        headers: pairs(&[("Host", "h".to_owned())]),
        ..get("https://a.example/{a}")
    };
    let mistakes = RequestTemplate::read(&written, &json!({})).unwrap_err();
    let keys: Vec<_> = mistakes.iter().map(|mistake| &*mistake.key).collect();
    assert_eq!(keys, ["method", "url", "query.q", "headers.Host"]);
}

#[test]
fn a_pointer_begins_with_a_slash() {
    for (pointer, is_right) in [("", true), ("/", true), ("/data/0", true), ("data", false)] {
        let options = ResultOptions { pointer: Some(pointer.into()), fields: Vec::new() };
        assert_eq!(options.mistake().is_none(), is_right, "{pointer}");
    }
    assert_eq!(ResultOptions::default().mistake(), None);
}
