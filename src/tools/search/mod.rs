//! Finds the tools for a question by its words, with Okapi BM25.
//!
//! ```text
//!   word  ──> the tools that have it, each with the weight of the word in this tool
//!   event ──> [(list_events, 2.1), (cancel_event, 1.9), ..]
//! ```
//! A word weighs more the fewer tools have it, and the more often a tool has it for its length. All
//! that is known when the tools are, so a search only adds up weights.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).

mod words;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{Catalog, ToolSpec};

/// How quickly a word that is repeated counts less.
const SATURATION: f32 = 1.2;

/// How much a long description counts against a tool.
const LENGTH_PENALTY: f32 = 0.75;

/// How many times a word of a name counts: a name is the shortest description.
const NAME_WEIGHT: f32 = 3.0;

/// An index of tools.
#[derive(Debug, Default)]
pub struct Index {
    /// By word: the positions of the tools in the catalog, and the word's weight in each.
    postings: HashMap<Box<str>, Vec<(usize, f32)>>,
    tools: usize,
}

impl Index {
    /// An index of these tools: their names and descriptions, and those of their parameters with the
    /// values to choose from.
    #[must_use]
    pub fn of(tools: &Catalog) -> Self {
        let counts: Vec<Counts> = tools.specs().map(count).collect();
        let tools = counts.len();
        let length: f32 = counts.iter().map(Counts::length).sum();
        let usual_length = (length / as_f32(tools.max(1))).max(1.0);
        let mut postings: HashMap<Box<str>, Vec<(usize, f32)>> = HashMap::new();
        for (position, counts) in counts.into_iter().enumerate() {
            let relative = counts.length() / usual_length;
            let damping = SATURATION * LENGTH_PENALTY.mul_add(relative - 1.0, 1.0);
            for (word, count) in counts.0 {
                let weight = count * (SATURATION + 1.0) / (count + damping);
                postings.entry(word).or_default().push((position, weight));
            }
        }
        for found in postings.values_mut() {
            let (having, all) = (as_f32(found.len()), as_f32(tools));
            let rarity = ((all - having + 0.5) / (having + 0.5)).ln_1p();
            for (_, weight) in found {
                *weight *= rarity;
            }
        }
        Self { postings, tools }
    }

    /// The positions of the tools that have any of the words, the best first. Each text counts as
    /// much as its weight says.
    #[must_use]
    pub fn find(&self, texts: &[(&str, f32)]) -> Vec<usize> {
        let mut scores = vec![0.0_f32; self.tools];
        for (text, weight) in texts {
            words::each(text, |word| {
                for (position, score) in self.postings.get(word).into_iter().flatten() {
                    scores[*position] = weight.mul_add(*score, scores[*position]);
                }
            });
        }
        let mut found: Vec<usize> = (0..self.tools).filter(|at| scores[*at] > 0.0).collect();
        // The sort is stable: of two tools that fit equally well, the first stays first.
        found.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        found
    }
}

/// How often a tool has each word. Sorted, so that sums are the same in every run.
#[derive(Default)]
struct Counts(BTreeMap<Box<str>, f32>);

impl Counts {
    fn add(&mut self, text: &str, weight: f32) {
        words::each(text, |word| match self.0.get_mut(word) {
            Some(count) => *count += weight,
            None => drop(self.0.insert(word.into(), weight)),
        });
    }

    /// Adds the names, descriptions and choices of a schema's properties, at any depth.
    fn add_properties(&mut self, schema: &Value) {
        match schema {
            Value::Object(object) => {
                if let Some(Value::Object(properties)) = object.get("properties") {
                    for (name, property) in properties {
                        self.add(name, 1.0);
                        if let Some(description) = property["description"].as_str() {
                            self.add(description, 1.0);
                        }
                    }
                }
                if let Some(Value::Array(choices)) = object.get("enum") {
                    for choice in choices.iter().filter_map(Value::as_str) {
                        self.add(choice, 1.0);
                    }
                }
                object.values().for_each(|value| self.add_properties(value));
            }
            Value::Array(values) => values.iter().for_each(|value| self.add_properties(value)),
            _ => {}
        }
    }

    fn length(&self) -> f32 {
        self.0.values().sum()
    }
}

fn count(spec: &ToolSpec) -> Counts {
    let mut counts = Counts::default();
    counts.add(&spec.name, NAME_WEIGHT);
    counts.add(spec.title.as_deref().unwrap_or_default(), 1.0);
    counts.add(&spec.description, 1.0);
    counts.add_properties(spec.told_parameters());
    counts
}

#[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^24 tools")]
const fn as_f32(count: usize) -> f32 {
    count as f32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::Registry;
    use crate::tools::registry::tests::described;

    fn tools() -> Catalog {
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let file = json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Where the document is."}}});
        let mut tools = Registry::default();
        for (name, description, parameters) in [
            ("get_weather", "The forecast for a place.", &city),
            ("list_events", "What is on in a city this weekend.", &city),
            ("read_file", "Returns the content of a file.", &file),
            ("send_mail", "Sends a message to somebody.", &json!({"type": "object"})),
        ] {
            tools.add(described(name, description, parameters.clone())).unwrap();
        }
        tools.catalog().clone()
    }

    #[track_caller]
    fn check(question: &str, expected: &[&str]) {
        let tools = tools();
        let found = Index::of(&tools).find(&[(question, 1.0)]);
        let names = tools.names();
        let found: Vec<&str> = found.into_iter().map(|at| &*names[at]).collect();
        assert_eq!(found, expected, "{question}");
    }

    #[test]
    fn tools_are_found_by_name_description_and_parameters() {
        check("How is the weather?", &["get_weather"]);
        check("any forecasts?", &["get_weather"]);
        check("open that document", &["read_file"]);
        check("weather in this city", &["get_weather", "list_events"]);
        check("Wie wird das Wetter?", &[]);
        check("", &[]);
    }

    #[test]
    fn a_rare_word_counts_more_than_a_frequent_one() {
        check("the city's events", &["list_events", "get_weather"]);
    }

    #[test]
    fn a_text_counts_as_much_as_its_weight() {
        let tools = tools();
        let index = Index::of(&tools);
        let texts = |mail, weather| index.find(&[("a mail", mail), ("weather", weather)])[0];
        assert_eq!(tools.names()[texts(1.0, 0.3)], "send_mail");
        assert_eq!(tools.names()[texts(0.3, 1.0)], "get_weather");
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        assert!(Index::of(&Catalog::default()).find(&[("anything", 1.0)]).is_empty());
    }
}
