//! References to items.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::requests::{parsed, with, words};
use super::*;
use crate::conversation::claimed::Repair;
use crate::limits::server::{REFERENCED_BYTES_MAX, REFERENCES_MAX};
use crate::server::dialect::responses::request::{Referents, Request};
use crate::server::dialect::responses::{ResponseId, history};
use crate::server::dialect::{ImageReader, ParsedRequest};

#[test]
fn references_lead_to_the_responses_that_have_the_items() {
    let ids: Vec<ResponseId> = (0..=REFERENCES_MAX as u128)
        .map(|number| {
            let turn = uuid::Uuid::from_u128(number).to_string();
            ResponseId::of(SESSION, &turn)
        })
        .collect();
    let mut items = vec![json!({"type": "item_reference", "id": "msg_1"})];
    for id in &ids {
        for number in [0, 1] {
            items.push(json!({"type": "item_reference", "id": id.item("msg", number)}));
        }
    }
    let body = json!({"model": "m", "input": items}).to_string();
    let request = Request::read(body.as_bytes()).unwrap();
    let (responses, wanted): (Vec<_>, Vec<_>) = request.references().into_iter().rev().unzip();
    assert_eq!(responses, ids[1..], "the latest of them");
    assert!(wanted.iter().all(|ids| ids.len() == 2), "{wanted:?}");
}

#[test]
fn an_item_that_is_referred_to_twice_is_there_once() {
    let call =
        json!({"type": "mcp_call", "id": "mcp_1", "name": "add", "arguments": "{}", "output": "2"});
    let known = [("mcp_1".to_owned(), call.clone())].into_iter().collect();
    let reference = json!({"type": "item_reference", "id": "mcp_1"});
    let mut items = [reference.clone(), reference.clone()];
    assert_eq!(history::resolve(&mut items, &known, ImageReader::NAMING), []);
    assert_eq!(items, [call, reference], "what stays a reference says nothing");
}

/// However often a request refers to an item.
#[test]
fn references_stand_for_no_more_than_they_may() {
    let item = json!({"type": "message", "role": "user", "content": "x".repeat(1 << 20)});
    let fitting = REFERENCED_BYTES_MAX / item.to_string().len();
    let id = |number: usize| format!("in_{number}");
    let known = (0..=fitting).map(|number| (id(number), item.clone())).collect();
    for (references, resolved, lost) in
        [(fitting, fitting, vec![]), (fitting + 1, fitting, vec![Repair::TooLong])]
    {
        let refer = |number| json!({"type": "item_reference", "id": id(number)});
        let mut items: Vec<Value> = (0..references).map(refer).collect();
        assert_eq!(history::resolve(&mut items, &known, ImageReader::NAMING), lost);
        let is_message = |item: &&Value| item["type"] == "message";
        assert_eq!(items.iter().rev().take_while(is_message).count(), resolved, "the latest");
    }
}

#[test]
fn an_item_takes_the_place_of_its_reference() {
    let item = json!({"type": "message", "role": "assistant", "content": "Aha."});
    let found =
        Referents { items: HashMap::from([("msg_a".to_owned(), item)]), ..Referents::default() };
    let refer = |id: &str| json!({"type": "item_reference", "id": id});
    let said = |text: &str| json!({"role": "user", "content": text});
    let input = json!([said("Hi."), refer("msg_a"), refer("msg_gone"), said("And?")]);
    let (turn, _) = with(found, &json!({"model": "m", "input": input})).unwrap();
    assert_eq!(words(&turn), "And?");
    assert_eq!(turn.client_history.unwrap().history.turns().len(), 1);
}

/// Its data is not stored, so a note takes its place.
#[test]
fn a_reference_to_an_image_is_a_note() {
    let image = json!({"type": "input_image", "image_url": "data:image/gif;base64,R0lGODlh"});
    let words = json!({"type": "input_text", "text": "Look:"});
    let item = json!({"type": "message", "role": "user", "content": [words, image]});
    let stored = history::without_images(&[item]).remove(0);
    let plain = json!({"type": "message", "role": "user", "content": "Well?"});
    let known = HashMap::from([("in_a".to_owned(), stored), ("in_b".to_owned(), plain)]);
    for (id, said, lost) in [
        ("in_a", "Look:\n[an image, which is not shown: it was not stored with its message]", 1),
        ("in_b", "Well?", 0),
    ] {
        let found = Referents { items: known.clone(), ..Referents::default() };
        let body = json!({"model": "m", "input": [{"type": "item_reference", "id": id}]});
        let ParsedRequest { turn, repairs, .. } = parsed(found, &body).unwrap();
        assert_eq!((self::words(&turn), repairs.of(Repair::LostImage)), (said, lost));
    }
}
