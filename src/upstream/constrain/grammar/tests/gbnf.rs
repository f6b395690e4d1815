//! A small matcher for the part of GBNF that the grammars use.

use std::collections::{BTreeSet, HashMap};

/// An expression of GBNF.
#[derive(Debug, Clone)]
enum Expression {
    Literal(Vec<char>),
    Class { negated: bool, ranges: Vec<(char, char)> },
    Rule(String),
    Sequence(Vec<Self>),
    Alternatives(Vec<Self>),
    Repeat { item: Box<Self>, min: usize, max: usize },
}

#[derive(Debug)]
pub(super) struct Grammar(HashMap<String, Expression>);

impl Grammar {
    #[track_caller]
    pub(super) fn parse(text: &str) -> Self {
        let mut rules = HashMap::new();
        for line in text.lines() {
            let (name, body) = line.split_once(" ::= ").expect("a rule");
            let mut rest: Vec<char> = body.chars().rev().collect();
            let expression = alternatives(&mut rest);
            assert!(rest.is_empty(), "left over in {line:?}: {rest:?}");
            assert!(rules.insert(name.to_owned(), expression).is_none(), "{name} occurs twice");
        }
        Self(rules)
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let ends = self.ends(&self.0["root"], &text, &BTreeSet::from([0]));
        ends.contains(&text.len())
    }

    /// Where a match of `expression` that begins at one of `starts` may end.
    fn ends(
        &self,
        expression: &Expression,
        text: &[char],
        starts: &BTreeSet<usize>,
    ) -> BTreeSet<usize> {
        match expression {
            _ if starts.is_empty() => BTreeSet::new(),
            Expression::Literal(literal) => starts
                .iter()
                .filter(|at| text[**at..].starts_with(literal))
                .map(|at| at + literal.len())
                .collect(),
            Expression::Class { negated, ranges } => starts
                .iter()
                .filter(|at| {
                    text.get(**at).is_some_and(|it| {
                        ranges.iter().any(|(low, high)| low <= it && it <= high) != *negated
                    })
                })
                .map(|at| at + 1)
                .collect(),
            Expression::Rule(name) => self.ends(
                self.0.get(name).unwrap_or_else(|| panic!("no rule {name}")),
                text,
                starts,
            ),
            Expression::Sequence(items) => {
                items.iter().fold(starts.clone(), |starts, item| self.ends(item, text, &starts))
            }
            Expression::Alternatives(items) => {
                items.iter().flat_map(|item| self.ends(item, text, starts)).collect()
            }
            Expression::Repeat { item, min, max } => {
                let (mut ends, mut current) = (BTreeSet::new(), starts.clone());
                for count in 0..=*max {
                    if count >= *min {
                        let known = ends.len();
                        ends.extend(&current);
                        if current.is_empty() || (count > *min && ends.len() == known) {
                            break;
                        }
                    }
                    current = self.ends(item, text, &current);
                }
                ends
            }
        }
    }
}

fn alternatives(rest: &mut Vec<char>) -> Expression {
    let mut items = vec![sequence(rest)];
    while rest.last() == Some(&'|') {
        rest.pop();
        items.push(sequence(rest));
    }
    if items.len() == 1 { items.remove(0) } else { Expression::Alternatives(items) }
}

fn sequence(rest: &mut Vec<char>) -> Expression {
    let mut items = Vec::new();
    while let Some(next) = rest.last() {
        match next {
            ' ' => drop(rest.pop()),
            '|' | ')' => break,
            _ => items.push(item(rest)),
        }
    }
    Expression::Sequence(items)
}

fn item(rest: &mut Vec<char>) -> Expression {
    let item = match rest.pop().unwrap() {
        '"' => {
            let mut literal = Vec::new();
            while rest.last() != Some(&'"') {
                literal.push(character(rest));
            }
            rest.pop();
            Expression::Literal(literal)
        }
        '[' => {
            let negated = rest.last() == Some(&'^') && rest.pop().is_some();
            let mut ranges = Vec::new();
            while rest.last() != Some(&']') {
                let low = character(rest);
                let is_range = rest.last() == Some(&'-') && rest[rest.len() - 2] != ']';
                let high = if is_range && rest.pop().is_some() { character(rest) } else { low };
                ranges.push((low, high));
            }
            rest.pop();
            Expression::Class { negated, ranges }
        }
        '(' => {
            let inner = alternatives(rest);
            assert_eq!(rest.pop(), Some(')'));
            inner
        }
        first => {
            let mut name = String::from(first);
            while rest.last().is_some_and(|it| it.is_ascii_alphanumeric() || *it == '-') {
                name.push(rest.pop().unwrap());
            }
            Expression::Rule(name)
        }
    };
    let (min, max) = match rest.last() {
        Some('?') => (0, 1),
        Some('*') => (0, usize::MAX - 1),
        Some('{') => {
            let end = rest.iter().rposition(|it| *it == '}').unwrap();
            let bounds: String = rest.drain(end + 1..rest.len() - 1).rev().collect();
            rest.truncate(end + 1);
            let (min, max) = bounds.split_once(',').unwrap_or((&bounds, &bounds));
            (min.parse().unwrap(), max.parse().unwrap_or(usize::MAX - 1))
        }
        _ => return item,
    };
    // llama.cpp refuses a grammar that repeats nothing.
    assert!(!matches!(&item, Expression::Literal(literal) if literal.is_empty()), "repeats \"\"");
    rest.pop();
    Expression::Repeat { item: Box::new(item), min, max }
}

fn character(rest: &mut Vec<char>) -> char {
    let digits = match (rest.pop().unwrap(), rest.last()) {
        ('\\', Some('x')) => 2,
        ('\\', Some('u')) => 4,
        ('\\', Some('U')) => 8,
        ('\\', _) => {
            return match rest.pop().unwrap() {
                'n' => '\n',
                other => other,
            };
        }
        (plain, _) => return plain,
    };
    rest.pop();
    let code: String = (0..digits).map(|_| rest.pop().unwrap()).collect();
    char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap()
}
