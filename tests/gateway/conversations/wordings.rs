//! The same wish in many wordings, answered by the embedded model.

use super::figures::Counted;
use super::{BOTH, Desk, Dice, offered};
use crate::support::events::outcome;

/// How people ask; the recipient and the text are left open. Some wordings make the model look
/// up and send in one message, others in two.
const WISHES: [&str; 10] = [
    "Tell {} {}",
    "please tell {} that {}",
    "Tell {}: {}",
    "Send a message to {}: {}",
    "Let {} know {}",
    "let {} know that {}",
    "Text {} that {}",
    "Could you message {}, {}",
    "Send \"{text}\" to {name}",
    "Notify {} {}",
];
const TEXTS: [&str; 4] = ["I'm running late", "I'll call at 5", "we're on 12*7", "I'm at Jane's"];
const NAMES: [&str; 3] = ["John", "J", "Jo"];
/// Earlier topics of the conversation.
const BEFORE: [Option<&str>; 4] =
    [None, Some("What is 12*7?"), Some("Tell Maria I'm home"), Some("Tell John I'm here")];

/// The number of variations to play.
const VARIATIONS: u64 = 20;

#[tokio::test]
async fn any_wording_goes_only_to_the_chosen_person() {
    play(&Counted::default()).await;
}

pub(crate) async fn play(counted: &Counted) {
    for seed in 0..VARIATIONS {
        let mut dice = Dice(seed);
        let (wish, text, name) = (dice.one_of(&WISHES), dice.one_of(&TEXTS), dice.one_of(&NAMES));
        let (before, execution) = (*dice.one_of(&BEFORE), *dice.one_of(&BOTH));
        let prompt = match wish.split_once("{text}") {
            Some(_) => wish.replace("{text}", text).replace("{name}", name),
            None => wish.replacen("{}", name, 1).replacen("{}", text, 1),
        };
        let variation = format!("seed {seed}, {execution:?}, after {before:?}: {prompt}");

        let desk = Desk::open(execution, counted).await;
        if let Some(before) = before {
            match before {
                "Tell Maria I'm home" => desk.tale.has_to_send("contact_maria_lopez", "I'm home"),
                "Tell John I'm here" => desk.tale.has_to_ask(),
                _ => {}
            }
            desk.say(before).await;
        }
        let sent_before = desk.sent();
        assert!(sent_before.iter().all(|(id, _)| id == "contact_maria_lopez"), "{variation}");
        let lookups_before = desk.lookups();

        desk.tale.has_to_ask();
        let options = offered(&desk.say(&prompt).await);
        assert_eq!(desk.sent(), sent_before, "{variation}");
        if *dice.one_of(&[true, false]) {
            desk.choose_in_vain(name).await;
            desk.choose_in_vain("contact_maria_lopez").await;
        }
        let chosen = dice.one_of(&options);
        desk.tale.has_to_send(chosen, text);
        let frames = desk.choose(chosen).await;
        assert_eq!(outcome(&frames), "stop", "{variation}");
        let message = (chosen.clone(), (*text).to_owned());
        assert_eq!(desk.sent()[sent_before.len()..], [message], "{variation}");
        assert_eq!(desk.lookups(), lookups_before + 1, "{variation}");
    }
}
