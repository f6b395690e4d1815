//! What the embedded model says without tools: its introduction, numbers, long texts.

use crate::upstream::OfferedTool;

pub(super) fn introduction(tools: &[OfferedTool]) -> String {
    let mut text = "Hello. I am the rehearsal model inside Tether, not a language model: I follow \
                    a script, so that you can watch the gateway work before you connect a real \
                    one. Try one of these:\n\n\
                    - What time is it in Tokyo?\n\
                    - What is 17 * 23, and what time is it in Lisbon?\n\
                    - Try a wrong tool for the time in Paris.\n\
                    - Tell John I'm running late. (With tools.demo: true.)\n\
                    - Check my appointments and billing. (Likewise.)\n\
                    - Think aloud: what is 2 ^ 64?\n\
                    - Count to 500.\n\n"
        .to_owned();
    if !tools.is_empty() {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        text.extend(["The tools I was offered: ", &names.join(", "), ". "]);
    }
    text.push_str(
        "For real answers start Tether with --upstream and the URL of a model server, such as \
         llama.cpp's http://127.0.0.1:8081/v1, and --model with the model's name.",
    );
    text
}

/// `1, 2, 3.`
pub(super) fn count_to(last: u32) -> String {
    let numbers: Vec<String> = (1..=last).map(|number| number.to_string()).collect();
    format!("{}.", numbers.join(", "))
}

/// A few minutes of reading at a human pace.
pub(super) fn long_answer() -> String {
    const PARAGRAPHS: u32 = 40;
    let paragraphs: Vec<String> = (1..=PARAGRAPHS)
        .map(|number| {
            format!(
                "Paragraph {number} of {PARAGRAPHS}. This text has no meaning, only length: it is \
                 here so that you can leave while it runs, come back, and see that nothing of it \
                 was lost and nothing came twice."
            )
        })
        .collect();
    paragraphs.join("\n\n")
}
