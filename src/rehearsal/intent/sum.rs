//! The arithmetic in a sentence.

/// Spoken forms of operators.
const SPOKEN: &[(&str, &str)] = &[
    (" plus ", " + "),
    (" minus ", " - "),
    (" times ", " * "),
    (" multiplied by ", " * "),
    (" divided by ", " / "),
    (" to the power of ", " ^ "),
    (" percent ", "% "),
    (" squared", "^2"),
    ("square root of ", "√"),
];

const FUNCTIONS: &[&str] = &[
    "sqrt",
    "cbrt",
    "abs",
    "round",
    "floor",
    "ceil",
    "min",
    "max",
    "exp",
    "ln",
    "log10",
    "log2",
    "sin",
    "cos",
    "tan",
    "factorial",
];

/// A part of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Number,
    /// Between two operands.
    Operator,
    /// A minus without spaces around it, as in dates.
    Dash,
    Open,
    Close,
    /// After a number: `!` and `²`.
    Postfix,
    Percent,
    /// A function's name, or `√`.
    Function,
    /// `pi`, `e`.
    Constant,
    /// `of`, or a comma between arguments.
    Joint,
    Space,
    Other,
}

/// Every expression in the sentence that can be calculated, in order.
pub(super) fn expressions(sentence: &str) -> Vec<String> {
    let mut sentence = sentence.to_owned();
    for (spoken, sign) in SPOKEN {
        sentence = sentence.replace(spoken, sign);
    }
    let parts = parts(&sentence);
    parts.split(|(part, _)| *part == Part::Other).filter_map(expression).collect()
}

/// The expression in a run of parts, if there is one.
fn expression(run: &[(Part, &str)]) -> Option<String> {
    let begins =
        |part: Part| matches!(part, Part::Number | Part::Open | Part::Function | Part::Constant);
    let ends = |part: Part| {
        matches!(part, Part::Number | Part::Close | Part::Postfix | Part::Percent | Part::Constant)
    };
    let first = run.iter().position(|(part, _)| begins(*part))?;
    let last = run.iter().rposition(|(part, _)| ends(*part))?;
    let mut run = run.get(first..=last)?;
    let count = |wanted: Part| run.iter().filter(|(part, _)| *part == wanted).count();
    let (mut opened, mut closed) = (count(Part::Open), count(Part::Close));
    // A bracket that belongs to the sentence, not to the expression.
    while let [(Part::Open, _), rest @ ..] = run
        && opened > closed
    {
        (run, opened) = (rest, opened - 1);
    }
    while let [rest @ .., (Part::Close, _)] = run
        && opened < closed
    {
        (run, closed) = (rest, closed - 1);
    }
    let has = |wanted: &[Part]| run.iter().any(|(part, _)| wanted.contains(part));
    let operand = has(&[Part::Number, Part::Constant]);
    // Two numbers with a dash are a subtraction; more are a date.
    let dashes = run.iter().filter(|(part, _)| *part == Part::Dash).count();
    let calculates = has(&[Part::Operator, Part::Function, Part::Postfix])
        || dashes == 1
        || (has(&[Part::Percent]) && has(&[Part::Joint]));
    if !(operand && calculates) {
        return None;
    }
    let text: String = run.iter().map(|(_, text)| *text).collect();
    Some(text.trim().to_owned())
}

/// Cuts the sentence into parts.
fn parts(sentence: &str) -> Vec<(Part, &str)> {
    let mut parts: Vec<(Part, &str)> = Vec::new();
    let mut rest = sentence;
    while let Some(char) = rest.chars().next() {
        let before = parts.last().map(|(part, _)| *part);
        let (length, part) = part(rest, char, before);
        let (text, after) = rest.split_at(length);
        parts.push((part, text));
        rest = after;
    }
    parts
}

/// The part at the start of `rest`, whose first character is `char`.
fn part(rest: &str, char: char, before: Option<Part>) -> (usize, Part) {
    let next = rest[char.len_utf8()..].chars().next();
    let next_digit = next.is_some_and(|next| next.is_ascii_digit());
    let run = |belongs: fn(char) -> bool| rest.find(|char| !belongs(char)).unwrap_or(rest.len());
    match char {
        '0'..='9' => {
            let mut length = run(|char| char.is_ascii_digit());
            while let Some(fraction) = rest[length..].strip_prefix(['.', ','])
                && fraction.starts_with(|char: char| char.is_ascii_digit())
            {
                let digits = fraction.find(|char: char| !char.is_ascii_digit());
                length += 1 + digits.unwrap_or(fraction.len());
            }
            (length, Part::Number)
        }
        char if char.is_alphabetic() => {
            let length = run(char::is_alphanumeric);
            let part = match &rest[..length] {
                "pi" | "π" | "e" => Part::Constant,
                "of" => Part::Joint,
                "mod" => Part::Operator,
                word if FUNCTIONS.contains(&word) && rest[length..].starts_with('(') => {
                    Part::Function
                }
                _ => Part::Other,
            };
            (length, part)
        }
        char if char.is_whitespace() => (char.len_utf8(), Part::Space),
        '-' | '−' if next_digit && before == Some(Part::Number) => (char.len_utf8(), Part::Dash),
        '+' | '-' | '*' | '/' | '^' | '×' | '÷' | '−' => (char.len_utf8(), Part::Operator),
        '(' => (1, Part::Open),
        ')' => (1, Part::Close),
        '√' => (char.len_utf8(), Part::Function),
        '²' | '³' => (char.len_utf8(), Part::Postfix),
        '!' if before == Some(Part::Number) => (1, Part::Postfix),
        '%' => (1, Part::Percent),
        ',' if next_digit => (1, Part::Joint),
        _ => (char.len_utf8(), Part::Other),
    }
}
