//! Arguments in requests.

use proptest::prelude::*;
use serde_json::from_slice;
use url::Url;

use super::*;
use crate::tools::http::request::FillError;

#[track_caller]
fn read(written: &WrittenRequest, names: &[&str]) -> RequestTemplate {
    RequestTemplate::read(written, &any_parameters(names)).unwrap()
}

fn fill(template: &RequestTemplate, arguments: &Value) -> Result<Filled, FillError> {
    template.fill(arguments.as_object().unwrap())
}

#[track_caller]
fn check_url(written: &WrittenRequest, names: &[&str], arguments: &Value, expected: &str) {
    let filled = fill(&read(written, names), arguments).map(|filled| filled.url);
    assert_eq!(filled.map_err(|error| error.to_string()), Ok(expected.to_owned()));
}

#[test]
fn a_placeholder_fills_one_segment() {
    let weather = get("https://api.example.org/v1/{city}/now");
    for (city, expected) in [
        (json!("Berlin"), "Berlin"),
        (json!("New York/NY?a=b#c"), "New%20York%2FNY%3Fa%3Db%23c"),
        (json!("a%2Fb"), "a%252Fb"),
        (json!("https://evil.example"), "https%3A%2F%2Fevil.example"),
        (json!("..."), "..."),
        (json!("ö\\@:"), "%C3%B6%5C%40%3A"),
        (json!(7), "7"),
        (json!(true), "true"),
        (json!(["a", "b/c", 1]), "a,b%2Fc,1"),
    ] {
        let expected = format!("https://api.example.org/v1/{expected}/now");
        check_url(&weather, &["city"], &json!({ "city": city }), &expected);
    }
    let parts = get("https://api.example.org:8443/a b/{x}.json,{y}:cancel/");
    let arguments = json!({ "x": "1", "y": "2" });
    let expected = "https://api.example.org:8443/a%20b/1.json,2:cancel/";
    check_url(&parts, &["x", "y"], &arguments, expected);
}

#[test]
fn values_that_are_no_segment_are_refused() {
    let plain = get("https://api.example.org/v1/{x}");
    let between = get("https://api.example.org/v1/.{x}");
    let encoded = get("https://api.example.org/v1/%2e{x}");
    for (written, value, says) in [
        (&plain, json!(""), "must not be empty"),
        (&plain, json!([]), "must not be empty"),
        (&plain, json!(null), "must be there"),
        (&plain, json!("."), "`.` and `..`"),
        (&plain, json!(".."), "`.` and `..`"),
        (&plain, json!("a/../b"), "`.` and `..`"),
        (&plain, json!("..\\b"), "`.` and `..`"),
        (&plain, json!(["a", "x/.."]), "`.` and `..`"),
        (&plain, json!({"..": 1}), "`.` and `..`"),
        (&plain, json!([["a"]]), "text or a number"),
        (&between, json!("."), "`.` and `..`"),
        (&encoded, json!("."), "`.` and `..`"),
    ] {
        let error = fill(&read(written, &["x"]), &json!({ "x": value })).unwrap_err().to_string();
        assert!(error.contains(says) && error.starts_with("`x` "), "{value}: {error}");
    }
    fill(&read(&between, &["x"]), &json!({ "x": "well-known" })).unwrap();
}

#[test]
fn a_query_repeats_lists_and_drops_what_is_absent() {
    let written = WrittenRequest {
        query: pairs(&[
            ("units", json!("{units}")),
            ("lang", json!("en")),
            ("limit", json!(10)),
            ("all", json!(true)),
            ("tag", json!(["fixed", "{tag}"])),
            ("between", json!("{from}..{to}")),
        ]),
        ..get("https://api.example.org/search?key=a%20b")
    };
    let names = ["units", "tag", "from", "to"];
    check_url(
        &written,
        &names,
        &json!({ "units": "a&b=c d", "tag": ["x", "y"], "from": 1, "to": 2 }),
        "https://api.example.org/search?key=a%20b&units=a%26b%3Dc%20d&lang=en&limit=10&all=true\
         &tag=fixed&tag=x&tag=y&between=1..2",
    );
    check_url(
        &written,
        &names,
        &json!({ "units": null, "from": 1, "tag": [] }),
        "https://api.example.org/search?key=a%20b&lang=en&limit=10&all=true&tag=fixed",
    );
    let none = WrittenRequest { query: pairs(&[("q", json!("{q}"))]), ..get("https://a.example/") };
    check_url(&none, &["q"], &json!({}), "https://a.example/");
}

#[test]
fn headers_take_visible_ascii() {
    let written = WrittenRequest {
        headers: pairs(&[("X-Key", "secret".to_owned()), ("X-Note", "n={note}".to_owned())]),
        ..get("https://api.example.org/")
    };
    let template = read(&written, &["note"]);
    let headers = |note: Value| fill(&template, &json!({ "note": note })).map(|f| f.headers);
    let key = ("x-key".to_owned(), "secret".to_owned());
    assert_eq!(headers(json!("a b~")).unwrap(), [key.clone(), ("x-note".into(), "n=a b~".into())]);
    assert_eq!(headers(json!([1, "b"])).unwrap()[1].1, "n=1,b");
    assert_eq!(headers(json!(null)).unwrap(), [key]);
    for note in ["a\r\nx-admin: 1", "a\nb", "ö", "\u{7f}", "a\tb", "\0"] {
        let error = headers(json!(note)).unwrap_err();
        assert_eq!(error, FillError::NotAscii("note".into()), "{note:?}");
    }
}

#[track_caller]
fn check_body(body: WrittenBody, arguments: &Value, expected: Option<(&str, &str)>) {
    let names: Vec<&str> = ["a", "b"].into();
    let filled = fill(&read(&post(body), &names), arguments).unwrap().body;
    let filled = filled.map(|(kind, bytes)| (kind, String::from_utf8(bytes).unwrap()));
    assert_eq!(filled, expected.map(|(kind, text)| (kind.to_owned(), text.to_owned())));
}

#[test]
fn bodies_are_json_forms_or_text() {
    const JSON: &str = "application/json";
    const FORM: &str = "application/x-www-form-urlencoded";
    const TEXT: &str = "text/plain; charset=utf-8";
    let both = json!({ "a": [1, {"x": null}], "b": "t\"x" });
    let json = WrittenBody::Json(json!({ "a": "{a}", "s": "<{b}>", "k": 1, "{a}": "{{a}}" }));
    check_body(
        json.clone(),
        &both,
        Some((JSON, r#"{"a":[1,{"x":null}],"s":"<t\"x>","k":1,"{a}":"{a}"}"#)),
    );
    check_body(json, &json!({}), Some((JSON, r#"{"k":1,"{a}":"{a}"}"#)));
    let alone = WrittenBody::Json(json!({ "deep": { "list": ["{a}", "{b}"] } }));
    check_body(alone, &json!({ "b": null }), Some((JSON, r#"{"deep":{"list":[null]}}"#)));
    let form =
        WrittenBody::Form(pairs(&[("x", json!("{a}")), ("y&", json!("{b}")), ("z", json!(1))]));
    check_body(
        form.clone(),
        &json!({"a": ["p q", "é"], "b": "="}),
        Some((FORM, "x=p%20q&x=%C3%A9&y%26=%3D&z=1")),
    );
    check_body(form, &json!({}), Some((FORM, "z=1")));
    let graphql = WrittenBody::Text("query { user(id: {a}) { name{b} } }".into());
    check_body(
        graphql,
        &json!({ "a": 1, "b": "s" }),
        Some((TEXT, "query { user(id: 1) { names } }")),
    );
}

#[test]
fn a_body_that_is_one_absent_argument_is_no_body() {
    let json = read(&post(WrittenBody::Json(json!("{a}"))), &["a"]);
    assert_eq!(fill(&json, &json!({})).unwrap().body, None);
    assert_eq!(fill(&json, &json!({ "a": 1 })).unwrap().body.unwrap().1, b"1");
    let text = read(&post(WrittenBody::Text("{a}".into())), &["a"]);
    assert_eq!(fill(&text, &json!({})).unwrap().body, None);
    let error = fill(&text, &json!({ "a": [1] })).unwrap_err();
    assert_eq!(error, FillError::NotScalar("a".into()));
}

#[test]
fn an_object_in_place_of_a_value_cannot_add_fields() {
    let fields = pairs(&[("role", json!("user")), ("note", json!("{note}"))]);
    let query = WrittenRequest { query: fields.clone(), ..get("https://api.example.org/") };
    let form = post(WrittenBody::Form(fields));
    let path = get("https://api.example.org/{note}");
    let headers = pairs(&[("X-Note", "{note}".to_owned())]);
    let header = WrittenRequest { headers, ..get("https://api.example.org/") };
    for note in [json!({ "role": "admin", "x": "1" }), json!([{ "role": "admin" }])] {
        for written in [&query, &form, &path, &header] {
            let error = fill(&read(written, &["note"]), &json!({ "note": note })).unwrap_err();
            assert_eq!(error, FillError::NotPlain("note".into()), "{written:?}");
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[./\\\\%2eEfF?#@:;&= +{}\\[\\]\r\n\t\0-]{0,12}",
        Just("..".to_owned()),
        Just("%2e%2e".to_owned()),
        Just("//evil.example/".to_owned()),
    ]
}

proptest! {
    /// The central promise: the model fills values, and changes nothing else of an address.
    #[test]
    fn arguments_change_values_only(one in any_text(), two in any_text(), three in any_text()) {
        let written = WrittenRequest {
            query: pairs(&[("q", json!("{three}")), ("fixed", json!("f"))]),
            ..get("https://api.example.org:8443/base/{one}/x-{two}.json")
        };
        let template = read(&written, &["one", "two", "three"]);
        let arguments = json!({ "one": one, "two": two, "three": three });
        match fill(&template, &arguments) {
            Ok(filled) => {
                let url = Url::parse(&filled.url).unwrap();
                prop_assert_eq!(url.origin().ascii_serialization(), "https://api.example.org:8443");
                prop_assert!(url.username().is_empty() && url.password().is_none());
                prop_assert_eq!(url.fragment(), None);
                let decode = |text: &str| {
                    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
                };
                let segments: Vec<_> = url.path_segments().unwrap().map(decode).collect();
                prop_assert_eq!(segments, ["base".to_owned(), one, format!("x-{two}.json")]);
                let query: Vec<_> = url.query_pairs().into_owned().collect();
                prop_assert_eq!(query, [("q".to_owned(), three), ("fixed".to_owned(), "f".to_owned())]);
                // What is sent is what was filled in.
                prop_assert_eq!(url.as_str(), &filled.url);
                prop_assert!(filled.url.parse::<hyper::Uri>().is_ok());
            }
            Err(error) => {
                let is_bad = |text: &str| text.is_empty() || text.split(['/', '\\']).any(|part| part == "." || part == "..");
                prop_assert!(is_bad(&one) || is_bad(&two), "{}", error);
            }
        }
    }

    #[test]
    fn a_json_body_is_json_whatever_the_arguments_are(text in any_text()) {
        let body = WrittenBody::Json(json!({ "a": "{a}", "b": ["x{b}"] }));
        let template = read(&post(body), &["a", "b"]);
        let filled = fill(&template, &json!({ "a": text, "b": text })).unwrap();
        let read: Value = from_slice(&filled.body.unwrap().1).unwrap();
        prop_assert_eq!(read, json!({ "a": text, "b": [format!("x{text}")] }));
    }
}
