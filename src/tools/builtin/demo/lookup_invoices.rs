//! The user's invoices, with due dates relative to today.

use std::future;
use std::sync::Arc;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::{Clock, after, in_words, today};
use crate::tools::{CallContext, Policy, Source, Tool, ToolFuture, ToolResult, ToolSpec};

/// The tool `lookup_invoices`.
#[derive(Debug)]
pub struct LookupInvoices {
    spec: Arc<ToolSpec>,
    clock: Clock,
}

impl LookupInvoices {
    /// The tool, with today's date from `clock`.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self { spec: Arc::new(spec()), clock }
    }
}

impl Tool for LookupInvoices {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        let status = arguments["status"].as_str().unwrap_or("open");
        Box::pin(future::ready(Ok(ToolResult::data(invoices(today(&self.clock), status)))))
    }
}

/// Number, days from now until it is due, cents, purpose and status.
const INVOICES: &[(&str, i64, u32, &str, &str)] = &[
    ("2041", 5, 12_900, "electricity", "open"),
    ("2044", 12, 4_550, "internet", "open"),
    ("2037", -20, 8_025, "water", "paid"),
];

fn spec() -> ToolSpec {
    ToolSpec {
        name: "lookup_invoices".to_owned(),
        description: "Lists the user's invoices (billing, bills) with amounts and due dates."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "status": {
                    "type": "string",
                    "enum": ["open", "paid", "all"],
                    "description": "Which ones. Default: open."
                }
            },
            "additionalProperties": false
        }),
        waiting_hint: "checking your billing".to_owned(),
        policy: Policy::default(),
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

fn invoices(today: Date, status: &str) -> Value {
    let wanted = INVOICES.iter().filter(|(.., stands)| status == "all" || status == *stands);
    let open: u32 = INVOICES
        .iter()
        .filter(|(.., stands)| *stands == "open")
        .map(|(_, _, cents, ..)| cents)
        .sum();
    let invoices: Vec<Value> = wanted
        .map(|(number, due, cents, what, stands)| {
            json!({
                "number": number, "for": what, "amount": euros(*cents), "status": stands,
                "due": in_words(after(today, *due)),
            })
        })
        .collect();
    json!({"invoices": invoices, "open_total": euros(open)})
}

/// `129.00 EUR`
fn euros(cents: u32) -> String {
    format!("{}.{:02} EUR", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn open_invoices_are_the_default() {
        let tool =
            LookupInvoices::with_clock(Clock::new(|| "2026-12-30T00:00:00Z".parse().unwrap()));
        let result = tool.call(json!({}), CallContext::first("k")).await.unwrap();
        assert_eq!(
            result.data.unwrap(),
            json!({
                "invoices": [
                    {"number": "2041", "for": "electricity", "amount": "129.00 EUR",
                     "status": "open", "due": "Monday, 4 January 2027"},
                    {"number": "2044", "for": "internet", "amount": "45.50 EUR",
                     "status": "open", "due": "Monday, 11 January 2027"},
                ],
                "open_total": "174.50 EUR"
            })
        );
        let count = |status| {
            let found = invoices(Date::constant(2026, 11, 22), status);
            found["invoices"].as_array().unwrap().len()
        };
        assert_eq!([count("open"), count("paid"), count("all")], [2, 1, 3]);
    }

    #[test]
    fn cents_have_two_digits() {
        assert_eq!(euros(5), "0.05 EUR");
    }
}
