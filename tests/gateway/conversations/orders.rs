//! The same calls in many orders and pieces, from a model that makes mistakes: it guesses ids,
//! sends before it looks up, looks up twice, names results that do not exist, and sends to
//! someone the user did not choose.

use serde_json::{Value, json};

use super::figures::Counted;
use super::{BOTH, Desk, Dice, JOHNS, offered};
use crate::support::events::outcome;
use crate::support::model::call;
use crate::support::{Frame, Model};

const TEXT: &str = "I'm running late";

fn look_up(name: &str) -> String {
    call("lookup_contacts", &json!({ "name": name }))
}

fn send_to(contact_id: &Value) -> String {
    call("send_message", &json!({"contact_id": contact_id, "text": TEXT}))
}

/// A call that sends to the contact found by call `number` of the message.
fn send_to_found(number: usize) -> String {
    send_to(&json!({"$result": format!("call_{number}.data.contact_id")}))
}

/// First messages of the model. Each guess of a real id comes with a lookup or an attempt at
/// one: from an id alone, no one can tell how the model got it.
fn first_messages(name: &str, guess: &str) -> Vec<Vec<String>> {
    let sum = || call("calculate", &json!({"expression": "12*7"}));
    let bills = || call("lookup_invoices", &json!({}));
    vec![
        vec![look_up(name)],
        vec![look_up(name), send_to_found(1)],
        vec![look_up(name), send_to(&json!(guess))],
        vec![look_up(name), send_to(&json!(name))],
        vec![look_up(name), look_up("Jane"), send_to_found(2)],
        vec![look_up(name), look_up(name), send_to(&json!(guess)), send_to_found(1)],
        vec![sum(), look_up(name), send_to_found(2)],
        vec![look_up(name), sum(), bills(), send_to(&json!(guess))],
        vec![bills(), look_up(name), sum(), send_to_found(2)],
        vec![send_to_found(2), look_up(name)],
        vec![send_to(&json!(name)), look_up(name)],
        vec![send_to(&json!("contact_john")), look_up(name), sum()],
        vec![send_to(&json!(guess)), look_up(name)],
        vec![sum(), send_to(&json!(guess)), bills(), look_up(name)],
        vec![send_to(&json!(guess)), look_up(name).replace("lookup_contacts", "find_contacts")],
        vec![send_to(&json!(guess)), look_up(name).replace("}}", "}")],
        vec![send_to(&json!(guess)), look_up(name).replace(":{\"name", ":{\"who")],
    ]
}

/// Drives a turn to its end. The model answers with `messages` in order, in frames of `size`
/// characters, and repeats the last one as often as it is asked.
async fn drive(
    desk: &Desk,
    model: &mut Model,
    body: &Value,
    messages: &[&str],
    size: usize,
) -> Vec<Frame> {
    let mut stream = desk.gateway.turn(body).await;
    let mut rest = std::pin::pin!(stream.rest());
    let (last, first) = messages.split_last().expect("the model says something");
    let mut messages = first.iter().chain(std::iter::repeat(last));
    loop {
        tokio::select! {
            biased;
            frames = rest.as_mut() => return desk.tale.heard(frames),
            round = model.round() => {
                round.answer_in_pieces(messages.next().expect("without end"), size).await;
            }
        }
    }
}

/// The number of variations to play.
const VARIATIONS: u64 = 60;

#[tokio::test]
async fn the_message_goes_to_the_chosen_person_in_any_order_of_calls() {
    play(&Counted::default()).await;
}

pub(crate) async fn play(counted: &Counted) {
    for seed in 0..VARIATIONS {
        let mut dice = Dice(seed);
        let name = *dice.one_of(&["John", "J", "john"]);
        let (guess, _) = *dice.one_of(&JOHNS);
        let first = dice.one_of(&first_messages(name, guess)).join("\n");
        let execution = *dice.one_of(&BOTH);
        let size = *dice.one_of(&[1, 3, usize::MAX]);
        let variation = format!("seed {seed}, {execution:?}, in pieces of {size}:\n{first}");

        let mut model = Model::listen();
        let change = |setup: &mut crate::support::gateway::Setup| {
            setup.config.tools.execution = execution;
        };
        let desk = Desk::with(model.address, counted, change).await;
        desk.tale.has_to_ask();
        let body = json!({"session_id": "s", "prompt": "Tell John I'm running late"});
        let frames = drive(&desk, &mut model, &body, &[&first, &look_up(name)], size).await;
        let options = offered(&frames);
        let delivered = |desk: &Desk| {
            let sent = desk.sent().into_iter();
            // Messages to unknown ids reach no one.
            sent.filter(|(id, _)| id != name && id != "contact_john").collect::<Vec<_>>()
        };
        assert_eq!(delivered(&desk), [], "{variation}");

        let chosen = dice.one_of(&options).clone();
        // The model may look up again what has just been answered. The user is not asked again.
        let again = [look_up(name), send_to_found(1)].join("\n");
        let looks_again = *dice.one_of(&[true, false, false]);
        desk.tale.has_to_send(&chosen, TEXT);
        let body = desk.choice(&chosen).await;
        let [send, elsewhere] = [&chosen, guess].map(|id| send_to(&json!(id)));
        let mut messages = vec![&*send, "It is sent."];
        if looks_again {
            messages.insert(0, &again);
        }
        if guess != chosen && options.iter().any(|option| option == guess) {
            messages.insert(0, &elsewhere);
        }
        let frames = drive(&desk, &mut model, &body, &messages, size).await;
        assert_eq!(outcome(&frames), "stop", "{variation}");
        assert_eq!(delivered(&desk), [(chosen, TEXT.to_owned())], "{variation}");
    }
}
