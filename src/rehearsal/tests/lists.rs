//! Two unrelated lists, and tools that the embedded model does not know.

use super::*;

const BOTH: &str = "Check my appointments and billing";

#[test]
fn two_lists_are_two_calls_without_words_before() {
    check(
        &[user(BOTH)],
        "<<function_call>> {\"name\": \"lookup_appointments\", \"arguments\": {}}\n\
         <<function_call>> {\"name\": \"lookup_invoices\", \"arguments\": {}}",
    );
    let invoices = &[("lookup_invoices", json!({}))];
    check_calls("What do I owe on open bills?", invoices);
    check_calls("what is on my calendar", &[("lookup_appointments", json!({}))]);
}

#[test]
fn one_answer_holds_both_lists() {
    let appointments = json!({"today": "Sunday, 22 November 2026", "days": 14, "appointments": [
        {"date": "Monday, 23 November 2026", "time": "10:00", "title": "Dentist", "place": "x"},
        {"date": "Wednesday, 25 November 2026", "time": "15:30", "title": "Review", "place": "y"},
    ]});
    let invoices = json!({"open_total": "129.00 EUR", "invoices": [
        {"number": "2041", "for": "electricity", "amount": "129.00 EUR", "status": "open",
         "due": "Friday, 27 November 2026"},
    ]});
    check(
        &[
            user(BOTH),
            assistant("Looking up your appointments and checking your billing."),
            results(&[
                ("lookup_appointments", data(&appointments)),
                ("lookup_invoices", data(&invoices)),
            ]),
        ],
        "You have 2 appointments: Dentist on Monday, 23 November 2026 at 10:00; Review on \
         Wednesday, 25 November 2026 at 15:30. 129.00 EUR are open: 129.00 EUR for electricity, \
         due Friday, 27 November 2026.",
    );
    check(
        &[
            user(BOTH),
            results(&[
                ("lookup_appointments", data(&json!({"appointments": []}))),
                ("lookup_invoices", error("the archive is closed")),
            ]),
        ],
        "You have no appointments. lookup_invoices did not work: the archive is closed.",
    );
}

#[test]
fn a_call_that_was_not_run_is_made_later() {
    check(
        &[
            user(BOTH),
            results(&[
                ("lookup_appointments", data(&json!({"appointments": []}))),
                ("lookup_invoices", error("not run: your message was cut off")),
            ]),
        ],
        "<<function_call>> {\"name\": \"lookup_invoices\", \"arguments\": {}}",
    );
}

#[test]
fn the_data_of_an_unknown_tool_is_quoted() {
    check(
        &[user("Check my parcels")],
        "<<function_call>> {\"name\": \"check_parcels\", \"arguments\": {}}",
    );
    check(
        &[
            user("Check my parcels"),
            assistant("..."),
            results(&[("check_parcels", data(&json!({"due": 12.5})))]),
        ],
        "check_parcels says: {\"due\":12.5}",
    );
}
