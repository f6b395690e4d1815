use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::conversation::{Answer, Call, Given, Outcome, Part, Turn};
use crate::orchestrator::rules::Select;
use crate::parser::Arguments;
use crate::tools::client::ClientTools;
use crate::tools::registry::tests::described;
use crate::tools::{Glob, Registry, ToolResult};

const MANY: [(&str, &str); 6] = [
    ("get_weather", "The forecast for a place."),
    ("list_events", "What is on in town."),
    ("read_file", "The content of a file."),
    ("write_file", "Changes a file."),
    ("send_mail", "Sends a mail."),
    ("read_mail", "The mails of a folder."),
];

fn catalog(finds: bool) -> Catalog {
    let mut tools = Registry::default();
    for (name, description) in MANY {
        tools.add(described(name, description, json!({ "type": "object" }))).unwrap();
    }
    if finds {
        let finder = FindTools::new(tools.catalog().clone(), Arc::default(), 0);
        tools.add(Arc::new(finder)).unwrap();
    }
    tools.catalog().clone()
}

fn rules(change: impl FnOnce(&mut Select)) -> Rules {
    let mut rules = Rules::default();
    rules.select.max_told = 2;
    change(&mut rules.select);
    rules
}

/// A session whose user has said these things, and whose model has called this tool each time.
fn session(turns: &[(&str, &str)]) -> Conversation {
    let mut history = Conversation::default();
    for (prompt, name) in turns {
        let call = Call {
            call_id: "call_1".to_owned(),
            name: (*name).to_owned(),
            arguments: Arguments::parse("{}").unwrap(),
            resolved_arguments: None,
            outcome: Outcome::Ended(ToolResult::data(json!(1))),
        };
        let step = Step { parts: vec![Part::Call(Arc::new(call))], ..Step::default() };
        history.push(Turn { prompt: (*prompt).to_owned(), steps: vec![step], ..Turn::default() });
    }
    history
}

/// What is told in full, and what by name.
fn select_with(
    rules: &Rules,
    prompt: &str,
    history: &Conversation,
) -> (Vec<String>, Vec<String>, usize) {
    let tools = catalog(true);
    let opening = Opening::Prompt(prompt.to_owned());
    let basis = Basis { opening: &opening, history };
    let Selection { told, named, unnamed } =
        Selection::of(rules, &tools, &Index::of(&catalog(false)), &basis);
    let names = |at: Vec<usize>| at.into_iter().map(|at| tools.at(at).name.clone()).collect();
    (names(told), names(named), unnamed)
}

fn select(rules: &Rules, prompt: &str) -> (Vec<String>, Vec<String>, usize) {
    select_with(rules, prompt, &Conversation::default())
}

#[test]
fn tools_up_to_the_limit_can_all_be_told() {
    let tools = catalog(false);
    let fits = |max_told| rules(|select| select.max_told = max_told).can_tell_all(&tools);
    assert!(fits(MANY.len()) && !fits(MANY.len() - 1));
    let told: usize = (0..MANY.len()).map(|at| tool_tokens(&tools, at)).sum();
    let fits = |budget| {
        let rules = Rules { context_budget_tokens: budget, ..Rules::default() };
        rules.can_tell_all(&tools)
    };
    assert!(fits(told * TOLD_SHARE) && !fits(told * TOLD_SHARE - 1));
}

#[test]
fn the_best_for_the_question_are_told_and_the_others_named() {
    let (told, named, unnamed) = select(&rules(|_| {}), "Read my mail.");
    assert_eq!(told, ["read_mail", "send_mail", "find_tools"]);
    assert_eq!(named, ["get_weather", "list_events", "read_file", "write_file"]);
    assert_eq!(unnamed, 0);
}

#[test]
fn a_question_in_other_words_leaves_names_and_the_search() {
    let (told, named, _) = select(&rules(|_| {}), "Wie wird das Wetter?");
    assert_eq!(told, ["find_tools"]);
    assert_eq!(named.len(), MANY.len());
}

#[test]
fn of_the_rest_the_best_have_names() {
    let rules = rules(|select| (select.max_told, select.names) = (1, 2));
    let (told, named, unnamed) = select(&rules, "Read my mail.");
    assert_eq!(told, ["read_mail", "find_tools"]);
    assert_eq!(named, ["read_file", "send_mail"]);
    assert_eq!(unnamed, 3);
}

#[test]
fn what_the_operator_names_is_always_told() {
    let always = rules(|select| select.always = vec![Glob::new("*_file")]);
    let (told, ..) = select(&always, "Read my mail.");
    assert_eq!(told, ["read_file", "write_file", "find_tools"], "though there is room for two");
}

/// The tools that the model is told about if a client brings this many, each with a description of this length.
fn select_beside(rules: &Rules, brought: usize, chars: usize, prompt: &str) -> Vec<String> {
    let mut clients = ClientTools::default();
    for at in 0..brought {
        clients.add(format!("own_{at}"), &"x".repeat(chars), None).unwrap();
    }
    let tools = clients.beside(&catalog(false));
    let opening = Opening::Prompt(prompt.to_owned());
    let basis = Basis { opening: &opening, history: &Conversation::default() };
    let told = Selection::of(rules, &tools, &Index::of(&tools), &basis).told;
    told.into_iter().map(|at| tools.at(at).name.clone()).collect()
}

#[test]
fn however_many_tools_a_client_brings_the_best_of_ours_are_told_too() {
    let rules = Rules::default();
    for (brought, chars) in [(30, 10), (12, 1000)] {
        let told = select_beside(&rules, brought, chars, "Read my mail.");
        assert_eq!(told[brought..], ["read_mail", "send_mail", "read_file"], "{brought}: {told:?}");
        assert!(told[..brought].iter().all(|name| name.starts_with("own_")), "{told:?}");
    }
    // A quarter of the places.
    let few = Rules { select: Select { max_told: 8, ..Select::default() }, ..Rules::default() };
    assert_eq!(select_beside(&few, 30, 10, "Read my mail.")[30..], ["read_mail", "send_mail"]);
}

#[test]
fn what_the_session_has_used_stays_in_the_order_of_its_use() {
    let rules = rules(|select| select.max_told = 3);
    let history = session(&[("a", "write_file"), ("b", "get_weather"), ("c", "write_file")]);
    let (told, ..) = select_with(&rules, "mail", &history);
    assert_eq!(told, ["get_weather", "write_file", "send_mail", "find_tools"]);
    let history = session(&[
        ("a", "list_events"),
        ("b", "write_file"),
        ("c", "gone"),
        ("d", "get_weather"),
        ("e", "read_file"),
    ]);
    let (told, ..) = select_with(&rules, "mail", &history);
    assert_eq!(told, ["write_file", "get_weather", "read_file", "find_tools"], "the latest three");
}

#[test]
fn earlier_questions_count_less() {
    let rules = rules(|select| select.max_told = 1);
    let about_mail = session(&[("Send a mail.", "gone")]);
    let told = |prompt| select_with(&rules, prompt, &about_mail).0;
    assert_eq!(told("Yes, do it.")[0], "send_mail");
    assert_eq!(told("What is the weather?")[0], "get_weather");
}

#[test]
fn approvals_leave_the_question_that_they_belong_to() {
    let answer = || {
        Box::new(Answer {
            clarification_id: String::new(),
            question: String::new(),
            given: Given::Approved { for_session: false },
            not_chosen: Vec::new(),
            beside: None,
        })
    };
    let mut history = session(&[("Send a mail to everybody.", "gone")]);
    for _ in 0..3 {
        let prompt = Opening::Answer(answer()).words().into_owned();
        history.push(Turn { prompt, answer: Some(answer()), ..Turn::default() });
    }
    let tools = catalog(true);
    for opening in [Opening::Answer(answer()), Opening::Prompt("Go on.".to_owned())] {
        let basis = Basis { opening: &opening, history: &history };
        let rules = rules(|select| select.max_told = 1);
        let selection = Selection::of(&rules, &tools, &Index::of(&catalog(false)), &basis);
        assert_eq!(tools.at(selection.told[0]).name, "send_mail", "{opening:?}");
    }
}

#[test]
fn an_embedders_find_tools_is_selected_like_any_other() {
    let mut registry = Registry::default();
    for (name, description) in [("find_tools", "A hardware shop."), MANY[0], MANY[4]] {
        registry.add(described(name, description, json!({ "type": "object" }))).unwrap();
    }
    let tools = registry.catalog();
    let opening = Opening::Prompt("Send a mail.".to_owned());
    let history = Conversation::default();
    let basis = Basis { opening: &opening, history: &history };
    let selection = Selection::of(&rules(|_| {}), tools, &Index::of(tools), &basis);
    assert_eq!(selection, Selection { told: vec![2], named: vec![0, 1], unnamed: 0 });
}

#[test]
fn descriptions_that_do_not_fit_are_left_for_the_search() {
    let tools = catalog(false);
    let one = tool_tokens(&tools, tools.position("read_mail").unwrap());
    let mut rules = rules(|_| {});
    for (room, fits) in [(one, 1), (one - 1, 0)] {
        rules.context_budget_tokens = room * TOLD_SHARE;
        let told = select(&rules, "read mails of a folder").0;
        assert_eq!(told.iter().filter(|name| *name == "read_mail").count(), fits, "{told:?}");
    }
}
