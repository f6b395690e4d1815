//! The figures that show whether the gateway works, from scripted conversations over HTTP.
//!
//! `tests/run report` shows them: each printed line begins with `notice:`.

mod slips;

use crate::conversations::{figures::Counted, orders, play_the_six, wordings};
use slips::{Recoveries, SLIPS};

/// Conversations per kind of mistake.
const VARIATIONS: u64 = 24;

#[expect(clippy::print_stdout, reason = "a report for people")]
fn print(line: &str) {
    println!("notice: {line}");
}

fn share(some: usize, all: usize) -> String {
    let percent = (some * 100).checked_div(all).unwrap_or_default();
    format!("{some} of {all} ({percent} %)")
}

#[tokio::test]
async fn questions_are_asked_when_needed_and_only_the_chosen_person_is_written_to() {
    let counted = Counted::default();
    // A failing conversation has counted up to its failure; its own test says what is wrong.
    let plays = [
        tokio::spawn({
            let counted = counted.clone();
            async move { play_the_six(&counted).await }
        }),
        tokio::spawn({
            let counted = counted.clone();
            async move { wordings::play(&counted).await }
        }),
        tokio::spawn({
            let counted = counted.clone();
            async move { orders::play(&counted).await }
        }),
    ];
    let mut broken = 0;
    for play in plays {
        broken += usize::from(play.await.is_err());
    }
    let figures = counted.lock();
    let rows = [
        ("conversations", figures.conversations.to_string()),
        ("asked where it was due", share(figures.questions_asked, figures.questions_due)),
        (
            "messages that went to who was chosen",
            share(figures.messages_sent, figures.messages_due),
        ),
        ("calls run after a question", figures.ran_after_question.to_string()),
        ("messages to a wrong recipient", figures.sent_wrongly.to_string()),
    ];
    print("clarification");
    for (what, figure) in rows {
        print(&format!("  {what:<38} {figure}"));
    }
    assert_eq!(broken, 0, "conversations that did not come to their end");
    assert_eq!(figures.amiss, 0, "conversations that asked too often or too seldom");
    assert_eq!(figures.messages_sent, figures.messages_due);
    assert_eq!((figures.ran_after_question, figures.sent_wrongly), (0, 0));
    assert!(figures.conversations >= 70 && figures.messages_due >= 60);
}

#[tokio::test]
async fn a_model_that_stumbles_still_reaches_an_answer() {
    let mut rows: Vec<(&str, Recoveries)> = Vec::new();
    for (place, reason) in SLIPS.into_iter().enumerate() {
        let mut recoveries = Recoveries::default();
        for variation in 0..VARIATIONS {
            let seed = 1000 * u64::try_from(place).unwrap() + variation;
            slips::play(reason, seed, &mut recoveries).await;
        }
        rows.push((reason, recoveries));
    }
    print("recovered from                 mistakes made, told; answered");
    for (reason, recoveries) in &rows {
        let Recoveries { all, made, told, answered, .. } = recoveries;
        print(&format!("  {reason:<28} {made}, {told}; {}", share(*answered, *all)));
    }
    for (reason, recoveries) in rows {
        assert!(recoveries.lost.is_empty(), "{reason}: {:#?}", recoveries.lost);
        assert_eq!(recoveries.told, recoveries.made, "{reason}: each mistake is told");
    }
}
