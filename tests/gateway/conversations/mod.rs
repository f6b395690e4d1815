//! Conversations in which a message must never go to the wrong John: the real gateway with its
//! demonstration tools and the embedded model, over HTTP. Sent messages are read from the tool
//! itself, not from events.

pub(crate) mod figures;
pub(crate) mod orders;
pub(crate) mod wordings;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tether::config::{Config, EmbeddedConfig, UpstreamKind};
use tether::orchestrator::Execution;
use tether::tools::builtin::Clock;
use tether::tools::builtin::demo::{
    LookupAppointments, LookupContacts, LookupInvoices, SendMessage,
};

use crate::support::events::{outcome, said};
use crate::support::gateway::{STREAM, Setup};
use crate::support::tools::{Seen, Watched};
use crate::support::{Frame, Gateway};
use figures::{Counted, Tale};

const JOHNS: [(&str, &str); 3] = [
    ("contact_john_doe", "John Doe"),
    ("contact_john_smith", "John Smith"),
    ("contact_john_carter", "John Carter"),
];

/// A pace that takes no time.
const AT_ONCE: EmbeddedConfig = EmbeddedConfig { tokens_per_sec: 100_000 };

/// A gateway whose lookups and messages are recorded.
struct Desk {
    gateway: Gateway,
    looked_up: Seen,
    sent: Seen,
    tale: Tale,
}

impl Desk {
    /// A desk with the embedded model.
    async fn open(execution: Execution, counted: &Counted) -> Self {
        Self::with(SocketAddr::from(([127, 0, 0, 1], 9)), counted, |setup| {
            setup.config.upstreams = Config::default().upstreams;
            setup.config.upstreams[0].kind = UpstreamKind::Embedded(AT_ONCE);
            setup.config.tools.execution = execution;
        })
        .await
    }

    async fn with(model: SocketAddr, counted: &Counted, change: impl FnOnce(&mut Setup)) -> Self {
        let (lookup, looked_up) = Watched::new(LookupContacts::new());
        let (messenger, sent) = Watched::new(SendMessage::new());
        let gateway = Gateway::with(model, |setup| {
            change(setup);
            setup.tools.add(Arc::new(lookup)).unwrap();
            setup.tools.add(Arc::new(messenger)).unwrap();
            setup.tools.add(Arc::new(LookupAppointments::with_clock(Clock::default()))).unwrap();
            setup.tools.add(Arc::new(LookupInvoices::with_clock(Clock::default()))).unwrap();
        })
        .await;
        let tale = Tale::new(Arc::clone(&sent), counted);
        Self { gateway, looked_up, sent, tale }
    }

    async fn say(&self, prompt: &str) -> Vec<Frame> {
        let body = json!({"session_id": "s", "prompt": prompt});
        self.tale.heard(self.gateway.turn(&body).await.rest().await)
    }

    /// Chooses an option of the session's open question, like a client after a reload.
    async fn choose(&self, id: &str) -> Vec<Frame> {
        self.tale.heard(self.gateway.turn(&self.choice(id).await).await.rest().await)
    }

    async fn choice(&self, id: &str) -> Value {
        let shown = self.gateway.get("/api/v1/sessions/s").await.json();
        assert_eq!(shown["state"], "awaiting_clarification", "{shown}");
        json!({"session_id": "s", "clarification_response": {
            "clarification_id": shown["clarification"]["clarification_id"],
            "selected_option": {"id": id},
        }})
    }

    /// Checks that an option which the question does not have is refused.
    async fn choose_in_vain(&self, id: &str) {
        let reply = self.gateway.post(STREAM, &self.choice(id).await).await;
        assert_eq!(reply.status(), 400, "{}", reply.message());
    }

    /// The recipients and texts of the messages sent.
    fn sent(&self) -> Vec<(String, String)> {
        let text = |sent: &Value, key: &str| sent[key].as_str().unwrap().to_owned();
        let sent = self.sent.lock();
        sent.iter().map(|sent| (text(sent, "contact_id"), text(sent, "text"))).collect()
    }

    fn lookups(&self) -> usize {
        self.looked_up.lock().len()
    }
}

/// The ids that a turn's question offers.
#[track_caller]
fn offered(frames: &[Frame]) -> Vec<String> {
    assert_eq!(outcome(frames), "clarification_needed", "{frames:#?}");
    let asked = frames.iter().find(|frame| frame.event == "clarification_needed").unwrap();
    let options = asked.data["options"].as_array().unwrap();
    options.iter().map(|option| option["id"].as_str().unwrap().to_owned()).collect()
}

fn count(frames: &[Frame], event: &str) -> usize {
    frames.iter().filter(|frame| frame.event == event).count()
}

const BOTH: [Execution; 2] = [Execution::Eager, Execution::AfterTurn];

/// The six conversations that must always work.
pub(crate) async fn play_the_six(counted: &Counted) {
    three_johns(counted).await;
    one_jane(counted).await;
    the_chosen_john(counted).await;
    nobody(counted).await;
    an_initial(counted).await;
    two_at_once(counted).await;
}

#[tokio::test]
async fn three_johns_are_asked_about_and_nothing_is_sent() {
    three_johns(&Counted::default()).await;
}

async fn three_johns(counted: &Counted) {
    for execution in BOTH {
        let desk = Desk::open(execution, counted).await;
        desk.tale.has_to_ask();
        let frames = desk.say("Tell John I'm running late").await;
        assert_eq!(offered(&frames), JOHNS.map(|(id, _)| id));
        assert_eq!(desk.sent(), []);
    }
}

#[tokio::test]
async fn one_jane_is_sent_the_message() {
    one_jane(&Counted::default()).await;
}

async fn one_jane(counted: &Counted) {
    for execution in BOTH {
        let desk = Desk::open(execution, counted).await;
        desk.tale.has_to_send("contact_jane_miller", "I'm running late");
        let frames = desk.say("Tell Jane I'm running late").await;
        assert_eq!(outcome(&frames), "stop");
        let message = ("contact_jane_miller".to_owned(), "I'm running late".to_owned());
        assert_eq!(desk.sent(), [message]);
        assert!(said(&frames).ends_with("Done: the message to Jane Miller is sent."));
    }
}

#[tokio::test]
async fn the_john_who_was_chosen_gets_it_without_a_second_lookup() {
    the_chosen_john(&Counted::default()).await;
}

async fn the_chosen_john(counted: &Counted) {
    for execution in BOTH {
        for (id, name) in JOHNS {
            let desk = Desk::open(execution, counted).await;
            desk.tale.has_to_ask();
            offered(&desk.say("Tell John I'm running late").await);
            desk.tale.has_to_send(id, "I'm running late");
            let frames = desk.choose(id).await;
            assert_eq!(outcome(&frames), "stop");
            assert_eq!(desk.sent(), [(id.to_owned(), "I'm running late".to_owned())]);
            assert_eq!(desk.lookups(), 1);
            assert!(said(&frames).contains(name), "{}", said(&frames));
        }
    }
}

#[tokio::test]
async fn a_search_without_a_match_says_so() {
    nobody(&Counted::default()).await;
}

async fn nobody(counted: &Counted) {
    for execution in BOTH {
        let desk = Desk::open(execution, counted).await;
        let frames = desk.say("Tell Zorgblort I'm running late").await;
        assert_eq!(outcome(&frames), "stop");
        assert!(said(&frames).contains("I found nobody called Zorgblort"), "{}", said(&frames));
        assert_eq!(desk.sent(), []);
    }
}

#[tokio::test]
async fn an_initial_is_too_little_to_be_sure() {
    an_initial(&Counted::default()).await;
}

async fn an_initial(counted: &Counted) {
    for execution in BOTH {
        let desk = Desk::open(execution, counted).await;
        desk.tale.has_to_ask();
        let frames = desk.say("Tell J I'm running late").await;
        assert_eq!(offered(&frames).len(), 6);
        assert_eq!(desk.sent(), []);
    }
}

#[tokio::test]
async fn two_questions_at_once_run_both_tools_after_one_acknowledgement() {
    two_at_once(&Counted::default()).await;
}

async fn two_at_once(counted: &Counted) {
    for execution in BOTH {
        let desk = Desk::open(execution, counted).await;
        let frames = desk.say("Check my appointments and billing").await;
        assert_eq!(outcome(&frames), "stop");
        let tools = ["tool_started", "tool_completed"].map(|event| count(&frames, event));
        assert_eq!((tools, count(&frames, "acknowledgement")), ([2, 2], 1));
        let last = &frames.last().unwrap().data;
        assert_eq!(last["loops"], 2, "one answer to both");
        let said = said(&frames);
        assert!(said.contains("3 appointments") && said.contains("174.50 EUR are open"), "{said}");
        if execution == Execution::AfterTurn {
            let order: Vec<_> = frames
                .iter()
                .map(|frame| &*frame.event)
                .filter(|event| event.starts_with("tool_") || *event == "acknowledgement")
                .filter(|event| *event != "tool_marker_detected")
                .collect();
            assert_eq!(order[..3], ["acknowledgement", "tool_started", "tool_started"]);
            let heard = frames.iter().find(|frame| frame.event == "acknowledgement").unwrap();
            let hints = "Looking up your appointments and checking your billing.";
            assert_eq!(heard.data, json!({"text": hints, "source": "hints"}));
        }
    }
}

/// Pseudo-random numbers: the same for the same seed on every machine (`SplitMix64`).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn one_of<'t, T>(&mut self, among: &'t [T]) -> &'t T {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let rolled = usize::try_from((mixed ^ (mixed >> 31)) % among.len() as u64);
        &among[rolled.expect("less than a length")]
    }
}
