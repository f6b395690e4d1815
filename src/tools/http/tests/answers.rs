//! Answers as results.

use super::*;
use crate::limits::http_tools::DETAIL_BYTES_MAX;
use crate::tools::Delivery;
use crate::tools::http::response::read;

#[track_caller]
fn outcome(
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
    options: &ResultOptions,
) -> Result<ToolResult, ToolFault> {
    let header =
        |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let body = Bytes::copy_from_slice(body);
    let answer = Answer { host: "a.example", status, is_head: false, header: &header, body };
    read(&answer, options, "1994-11-06T08:49:37Z".parse().unwrap())
}

#[track_caller]
fn result(status: u16, content_type: &str, body: &[u8], options: &ResultOptions) -> ToolResult {
    outcome(status, &[("content-type", content_type)], body, options).unwrap()
}

#[track_caller]
fn check(content_type: &str, body: &str, expected: Value) {
    let result = result(200, content_type, body.as_bytes(), &ResultOptions::default());
    assert_eq!(result, ToolResult::data(expected), "{content_type}: {body}");
}

#[test]
fn json_is_data() {
    check("application/json", r#"{"a": [1]}"#, json!({"a": [1]}));
    check("application/vnd.api+json; charset=utf-8", "[1, 2]", json!({"items": [1, 2]}));
    check("Application/JSON", r#""words""#, json!({"text": "words"}));
    check("application/json", "7", json!({"value": 7}));
    check("application/json", "null", json!({"value": null}));
    check("application/json", r#"{"a": "cut \ud83d"}"#, json!({"a": "cut \u{fffd}"}));
    check("", " {\"a\": 1}", json!({"a": 1}));
    // The shape of our own results means nothing in an answer.
    check(
        "application/json",
        r#"{"success": false, "data": 1}"#,
        json!({"success": false, "data": 1}),
    );
}

#[test]
fn text_is_text_and_html_its_words() {
    check("text/plain", "{}", json!({"text": "{}"}));
    check("text/csv; charset=utf-8", "a,b\n", json!({"text": "a,b\n"}));
    check("text/plain", "\u{feff}x", json!({"text": "x"}));
    check("", "words", json!({"text": "words"}));
    check("application/xml", "<a/>", json!({"text": "<a/>"}));
    check("application/atom+xml", "<a/>", json!({"text": "<a/>"}));
    check("application/x-ndjson", "{}\n{}", json!({"text": "{}\n{}"}));
    check("text/html", "<p>One<p>Two", json!({"text": "One\nTwo"}));
}

#[test]
fn text_is_read_in_the_charset_that_its_type_names() {
    for (charset, bytes, expected) in [
        ("\"ISO-8859-1\"", &b"caf\xe9 \x80"[..], "café €"),
        ("latin1", b"\x80\x81\x9f", "€\u{81}Ÿ"),
        ("Windows-1252", b"\x93x\x94", "“x”"),
        ("shift_jis", b"\x93\xfa\x96\x7b", "日本"),
        ("utf-8", b"caf\xe9", "caf\u{fffd}"),
        ("no-such-charset", b"caf\xc3\xa9", "café"),
        ("latin1", b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
    ] {
        let content_type = format!("text/plain; Charset={charset}");
        let result = result(200, &content_type, bytes, &ResultOptions::default());
        assert_eq!(result, ToolResult::data(json!({ "text": expected })), "{charset}");
    }
}

#[test]
fn a_byte_order_mark_before_json_is_no_part_of_it() {
    const PROBLEM: &str = "application/problem+json";
    check("application/json", "\u{feff}{\"a\": 1}", json!({ "a": 1 }));
    check("", "\u{feff} [1]", json!({ "items": [1] }));
    let said = "\u{feff}{\"title\": \"no\"}";
    check_error(400, PROBLEM, said, "a.example answered with HTTP status 400: no");
}

#[test]
fn an_empty_answer_is_its_status() {
    check("application/json", "", json!({"status": 200}));
    let none = outcome(204, &[], b"", &ResultOptions::default()).unwrap();
    assert_eq!(none, ToolResult::data(json!({"status": 204})));
}

#[test]
fn the_answer_to_head_is_its_header() {
    let header = |name: &str| match name {
        "content-length" => Some("1234"),
        "etag" => Some("\"v1\""),
        "x-secret" => Some("s"),
        _ => None,
    };
    let body = Bytes::new();
    let answer = Answer { host: "a.example", status: 200, is_head: true, header: &header, body };
    let read = read(&answer, &ResultOptions::default(), Timestamp::UNIX_EPOCH).unwrap();
    let data = json!({"status": 200, "headers": {"content-length": "1234", "etag": "\"v1\""}});
    assert_eq!(read, ToolResult::data(data));
}

#[test]
fn what_a_model_cannot_read_is_a_file() {
    for (content_type, body, media_type) in [
        ("image/png", &b"\x89PNG"[..], "image/png"),
        ("Application/PDF; x=y", b"%PDF", "application/pdf"),
        ("image/svg+xml", b"<svg/>", "image/svg+xml"),
        ("", b"\xff\xfe", "application/octet-stream"),
        ("application/octet-stream", b"text", "application/octet-stream"),
    ] {
        let headers = [("content-type", content_type)];
        let result = outcome(200, &headers, body, &ResultOptions::default()).unwrap();
        let [file] = &result.files[..] else { panic!("{result:?}") };
        assert_eq!((&*file.mime_type, &*file.bytes), (media_type, body));
        assert_eq!((result.success, result.data), (true, Some(json!({}))));
    }
}

#[test]
fn a_part_can_be_chosen() {
    let choose = |pointer: Option<&str>, fields: &[&str], body: &str| {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        let options = ResultOptions { pointer: pointer.map(str::to_owned), fields };
        result(200, "application/json", body.as_bytes(), &options)
    };
    let body =
        r#"{"data": {"temp": 7, "wind": 3, "x": [1]}, "list": [{"a": 1, "b": 2}, {"b": 3}, 4]}"#;
    let data = |value| ToolResult::data(value);
    assert_eq!(
        choose(Some("/data"), &["wind", "temp", "no"], body),
        data(json!({"temp": 7, "wind": 3}))
    );
    assert_eq!(choose(Some("/list"), &["a"], body), data(json!({"items": [{"a": 1}, {}, 4]})));
    assert_eq!(choose(Some("/data/temp"), &[], body), data(json!({"value": 7})));
    assert_eq!(choose(Some(""), &["list"], r#"{"list": 1, "x": 2}"#), data(json!({"list": 1})));
    let absent = choose(Some("/nothing"), &[], body);
    let told = format!("a.example has no /nothing in its answer: {body}");
    assert_eq!(absent, ToolResult::unread(told));
    for (answer, is_done) in [
        (r#"{"errors": [{"message": "no"}]}"#, false),
        (r#"{"ok": false, "error": "no"}"#, false),
        (r#"{"success": false}"#, false),
        (r#"{"error": "no"}"#, false),
        (r#"{"error": false, "order": 7}"#, true),
        (r#"{"errors": [], "order": 7}"#, true),
        (r#"{"error": "", "order": 7}"#, true),
        (r#"{"error": 0, "order": 7}"#, true),
        (r#"{"success": true, "errors": ["a warning"]}"#, true),
    ] {
        let result = choose(Some("/data"), &[], answer);
        assert_eq!(result.uncertain, is_done, "{answer}");
        assert!(result.error.unwrap().contains("in its answer: "), "{answer}");
    }
    let options = ResultOptions { pointer: Some("/data".into()), fields: Vec::new() };
    let page = result(200, "text/html", b"<p>", &options);
    assert_eq!(page, ToolResult::unread("a.example answered with text/html instead of JSON"));
}

#[test]
fn bad_json_is_an_error_for_the_model() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    for (body, says) in
        [("{", "invalid JSON: EOF"), ("{\"a\":}", "invalid JSON"), (&deep, "recursion")]
    {
        let result = result(200, "application/json", body.as_bytes(), &ResultOptions::default());
        assert!(result.uncertain, "the server did what it was asked");
        let error = result.error.unwrap();
        assert!(error.contains(says), "{error}");
    }
}

#[track_caller]
fn check_error(status: u16, content_type: &str, body: &str, expected: &str) {
    let result = result(status, content_type, body.as_bytes(), &ResultOptions::default());
    assert_eq!(result, ToolResult::error(expected));
}

#[test]
fn a_refused_request_is_explained_to_the_model() {
    const PROBLEM: &str = "application/problem+json";
    check_error(404, "", "", "a.example answered with HTTP status 404");
    check_error(
        422,
        PROBLEM,
        r#"{"type": "about:blank", "title": "Not valid", "status": 422, "detail": "days is too large", "errors": {"days": [">7"]}}"#,
        r#"a.example answered with HTTP status 422: Not valid: days is too large: {"errors":{"days":[">7"]}}"#,
    );
    check_error(400, PROBLEM, r#"{"detail": "no"}"#, "a.example answered with HTTP status 400: no");
    check_error(
        400,
        "application/json",
        "{\"error\": {\"message\":\n \"bad\"}}",
        r#"a.example answered with HTTP status 400: {"error": {"message": "bad"}}"#,
    );
    check_error(
        404,
        "text/html",
        "<h1>Not Found</h1><p>nginx</p>",
        "a.example answered with HTTP status 404: Not Found nginx",
    );
    check_error(
        409,
        "text/plain",
        "a\u{1b}[31m\tb",
        "a.example answered with HTTP status 409: a [31m b",
    );
    check_error(415, "image/png", "\u{1}", "a.example answered with HTTP status 415");
    let long = "w".repeat(DETAIL_BYTES_MAX);
    check_error(
        400,
        "text/plain",
        &long,
        &format!("a.example answered with HTTP status 400: {long}"),
    );
    check_error(
        400,
        "text/plain",
        &format!("{long}w"),
        &format!("a.example answered with HTTP status 400: {long}…"),
    );
}

#[track_caller]
fn check_fault(
    status: u16,
    headers: &[(&str, &str)],
    says: &str,
    transient: bool,
    seconds: Option<u64>,
) {
    let fault = outcome(status, headers, b"details", &ResultOptions::default()).unwrap_err();
    assert!(fault.message.contains(says), "{fault}");
    assert_eq!(
        (fault.transient, fault.retry_after.map(|wait| wait.as_secs())),
        (transient, seconds)
    );
}

#[test]
fn what_the_server_could_not_do_is_a_fault() {
    for status in [401, 403] {
        let says = format!("not authorized by a.example (HTTP status {status})");
        check_fault(status, &[("content-type", "text/plain")], &says, false, None);
    }
    for status in [429, 502, 503, 504] {
        check_fault(status, &[], &format!("HTTP status {status}"), true, None);
        check_fault(status, &[("retry-after", "7")], "HTTP status", true, Some(7));
        check_fault(status, &[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], "", true, Some(3));
    }
    check_fault(500, &[("retry-after", "7")], "HTTP status 500: details", false, None);
    for (status, delivery) in [
        (301, Delivery::Received),
        (303, Delivery::Received),
        (304, Delivery::Unknown),
        (307, Delivery::Unknown),
        (401, Delivery::Unknown),
        (500, Delivery::Received),
    ] {
        let fault = outcome(status, &[], b"", &ResultOptions::default()).unwrap_err();
        assert_eq!(fault.delivery, delivery, "{status}");
    }
    check_fault(
        302,
        &[("location", "https://b.example/")],
        "redirect (HTTP status 302)",
        false,
        None,
    );
    let gzip = [("content-encoding", "gzip")];
    check_fault(404, &gzip, "compressed its answer (gzip)", false, None);
    let done = outcome(200, &gzip, b"", &ResultOptions::default()).unwrap();
    assert_eq!(done, ToolResult::unread("a.example compressed its answer (gzip) unasked"));
}
