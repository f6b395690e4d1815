//! The user's calendar, with dates relative to today.

use std::future;
use std::sync::Arc;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::{Clock, after, in_words, today};
use crate::tools::{CallContext, Policy, Source, Tool, ToolFuture, ToolResult, ToolSpec};

/// The tool `lookup_appointments`.
#[derive(Debug)]
pub struct LookupAppointments {
    spec: Arc<ToolSpec>,
    clock: Clock,
}

impl LookupAppointments {
    /// The tool, with today's date from `clock`.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self { spec: Arc::new(spec()), clock }
    }
}

impl Tool for LookupAppointments {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        let days = arguments["days"].as_i64().unwrap_or(DAYS);
        Box::pin(future::ready(Ok(ToolResult::data(appointments(today(&self.clock), days)))))
    }
}

/// How many days it looks ahead by default.
const DAYS: i64 = 14;

/// Days from now, time, title and place.
const CALENDAR: &[(i64, &str, &str, &str)] = &[
    (1, "10:00", "Dentist", "Dr. Patel, Mill Road 4"),
    (3, "15:30", "Project review", "Room 2"),
    (9, "19:00", "Dinner with Jane", "The Old Ferry"),
];

fn spec() -> ToolSpec {
    ToolSpec {
        name: "lookup_appointments".to_owned(),
        description: "Lists the user's appointments of the next days.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "days": {
                    "type": "integer",
                    "description": "How many days to look ahead. Default: 14.",
                    "minimum": 1,
                    "maximum": 366
                }
            },
            "additionalProperties": false
        }),
        waiting_hint: "looking up your appointments".to_owned(),
        policy: Policy::default(),
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

fn appointments(today: Date, days: i64) -> Value {
    let near = CALENDAR.iter().filter(|(ahead, ..)| *ahead <= days);
    let appointments: Vec<Value> = near
        .map(|(ahead, time, title, place)| {
            let date = after(today, *ahead);
            json!({"date": in_words(date), "time": time, "title": title, "place": place})
        })
        .collect();
    json!({"today": in_words(today), "days": days, "appointments": appointments})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn days_are_counted_from_the_clocks_day() {
        let tool =
            LookupAppointments::with_clock(Clock::new(|| "2026-12-30T23:59:59Z".parse().unwrap()));
        let result = tool.call(json!({}), CallContext::first("k")).await.unwrap();
        let data = result.data.unwrap();
        assert_eq!(data["today"], "Wednesday, 30 December 2026");
        assert_eq!(data["appointments"].as_array().unwrap().len(), CALENDAR.len());
        assert_eq!(
            data["appointments"][1],
            json!({
                "date": "Saturday, 2 January 2027", "time": "15:30", "title": "Project review",
                "place": "Room 2"
            })
        );
    }

    #[test]
    fn later_appointments_are_left_out() {
        let titles = |days| {
            let found = appointments(Date::constant(2026, 11, 22), days);
            found["appointments"].as_array().unwrap().len()
        };
        assert_eq!([titles(1), titles(2), titles(3), titles(8), titles(9)], [1, 1, 2, 2, 3]);
    }

    #[test]
    fn the_calendars_last_day_is_handled() {
        assert_eq!(appointments(Date::MAX, 366)["appointments"].as_array().unwrap().len(), 3);
    }
}
