//! Everything that a turn can do.

use std::collections::BTreeSet;

use super::TurnState;

/// Each entry: a state, an input, and the states that may follow. The lines that begin with a
/// colon list the outputs that may come at once. A turn that has ended takes no input.
const MOVES: &str = "
-            begin          -> planning executing awaiting_clarification
    : turn_started status acknowledgement tool_started start_tool not_run clarification_needed
    : resume_tool start_round turn_completed
planning     rerouted       -> planning
    : status
planning     answered       -> planning
planning     text           -> planning executing synthesizing awaiting_clarification completed failed
    : client_tool_call
    : text_delta reasoning_delta tool_marker_detected tool_arguments_delta status
    : acknowledgement tool_started start_tool tool_progress tool_completed not_run feedback
    : clarification_needed loop_limit_reached stop_round stop_tools start_round turn_completed turn_failed
planning     reasoning      -> planning failed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools turn_failed
planning     reasoning_item -> planning failed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools turn_failed
planning     call_started   -> planning executing synthesizing awaiting_clarification completed
    : client_tool_call
    : text_delta tool_marker_detected status acknowledgement tool_started start_tool
    : tool_progress tool_completed not_run feedback clarification_needed loop_limit_reached stop_round start_round
    : turn_completed
planning     call_arguments -> planning executing synthesizing completed failed
    : text_delta tool_arguments_delta status acknowledgement tool_started tool_progress
    : tool_completed feedback stop_round stop_tools start_round turn_completed turn_failed
planning     call_completed -> planning executing synthesizing awaiting_clarification completed
    : client_tool_call
    : text_delta status acknowledgement tool_started start_tool tool_progress tool_completed
    : not_run feedback clarification_needed loop_limit_reached stop_round start_round turn_completed
planning     finish         -> planning
planning     usage          -> planning
planning     round_ended    -> planning executing synthesizing awaiting_clarification completed failed
    : client_tool_call
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : start_tool tool_progress tool_completed not_run empty_answer feedback
    : clarification_needed loop_limit_reached
    : stop_round stop_tools start_round turn_completed turn_failed
planning     round_failed   -> failed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools turn_failed
planning     tool_ended     -> planning executing synthesizing awaiting_clarification completed
    : client_tool_call
    : status acknowledgement tool_started start_tool tool_progress tool_completed not_run
    : feedback clarification_needed stop_round start_round turn_completed
planning     tool_progressed -> planning
    : tool_progress
planning     tool_asked     -> planning executing awaiting_clarification
    : status acknowledgement tool_started start_tool stop_tool park_tool tool_progress tool_completed
    : not_run feedback clarification_needed stop_round turn_completed
planning     logged         -> planning failed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools turn_failed
planning     audience       -> planning
planning     tick           -> planning completed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools abandoned turn_completed
planning     cancel         -> completed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools turn_completed
planning     store_lost     -> failed
    : text_delta reasoning_delta tool_arguments_delta status acknowledgement tool_started
    : tool_progress tool_completed feedback stop_round stop_tools turn_failed
executing    rerouted       -> executing
executing    answered       -> executing
executing    text           -> executing
executing    reasoning      -> executing
executing    reasoning_item -> executing
executing    call_started   -> executing
executing    call_arguments -> executing
executing    call_completed -> executing
executing    finish         -> executing
executing    usage          -> executing
executing    round_ended    -> executing
executing    round_failed   -> executing
executing    tool_ended     -> planning executing synthesizing awaiting_clarification completed
    : client_tool_call
    : status acknowledgement tool_started start_tool tool_progress tool_completed not_run
    : feedback clarification_needed loop_limit_reached start_round turn_completed
executing    tool_progressed -> executing
    : tool_progress
executing    tool_asked     -> executing awaiting_clarification
    : status start_tool tool_started stop_tool park_tool tool_progress tool_completed not_run
    : feedback clarification_needed turn_completed
executing    logged         -> executing failed
    : stop_round stop_tools turn_failed
executing    audience       -> executing
executing    tick           -> executing completed
    : tool_progress stop_round stop_tools abandoned turn_completed
executing    cancel         -> completed
    : stop_round stop_tools turn_completed
executing    store_lost     -> failed
    : stop_round stop_tools turn_failed
synthesizing rerouted       -> synthesizing
    : status
synthesizing answered       -> synthesizing
synthesizing text           -> synthesizing completed failed
    : text_delta reasoning_delta status empty_answer stop_round stop_tools start_round
    : turn_completed turn_failed
synthesizing reasoning      -> synthesizing failed
    : text_delta reasoning_delta stop_round stop_tools turn_failed
synthesizing reasoning_item -> synthesizing failed
    : text_delta stop_round stop_tools turn_failed
synthesizing call_started   -> synthesizing
    : text_delta
synthesizing call_arguments -> synthesizing failed
    : text_delta stop_round stop_tools turn_failed
synthesizing call_completed -> synthesizing
    : text_delta
synthesizing finish         -> synthesizing
synthesizing usage          -> synthesizing
synthesizing round_ended    -> synthesizing completed failed
    : text_delta reasoning_delta status empty_answer stop_round stop_tools start_round
    : turn_completed turn_failed
synthesizing round_failed   -> failed
    : text_delta reasoning_delta stop_round stop_tools turn_failed
synthesizing tool_ended     -> synthesizing
synthesizing tool_progressed -> synthesizing
synthesizing tool_asked     -> synthesizing
synthesizing logged         -> synthesizing failed
    : text_delta reasoning_delta stop_round stop_tools turn_failed
synthesizing audience       -> synthesizing
synthesizing tick           -> synthesizing completed
    : text_delta reasoning_delta stop_round stop_tools abandoned turn_completed
synthesizing cancel         -> completed
    : text_delta reasoning_delta stop_round stop_tools turn_completed
synthesizing store_lost     -> failed
    : text_delta reasoning_delta stop_round stop_tools turn_failed
";

/// Rules that no state shows.
const RULES: &str = "
acknowledged: by hints
acknowledged: by the model
acknowledged: nothing to say
another upstream answers
arguments are shown as they arrive
asked for a call
asked: a first time
asked: a waiting question
asked: again, after an answer
asked: before the model
asked: to approve a call
asked: by a tool that runs
asked: several at once
call cap reached
calls: in the text, closed
calls: in the text, by the template
calls: in the text, not closed
calls: native
continues: with the client's results
closing: a stray call
closing: asked again
closing: composed from the results
empty answer
ends: cancelled
ends: clarification_needed
ends: client_tool_calls
ends: content_filter
ends: filtered
ends: length
ends: loop_limit
ends: out of tokens
ends: stop
ends: with the results
fails: empty_response
fails: no closing answer
fails: store_unavailable
fails: turn_too_large, its events
fails: turn_too_large, its text
fails: upstream_error
fails: upstream_timeout
fails: upstream_unavailable
feedback: a call is required
feedback: empty_response, the first in a row
feedback: empty_response, the second in a row
feedback: empty_response, the second with the turn before
feedback: incomplete_call
feedback: incomplete_call, a marker alone, cut
feedback: incomplete_call, cut
feedback: incomplete_call, cut and repaired
feedback: invalid_arguments
feedback: invalid_arguments, no such result
feedback: invalid_arguments, not chosen
feedback: invalid_arguments, resolved from a reference
feedback: invalid_arguments, too deep a result
feedback: invented_result
feedback: malformed_call
feedback: payload_too_large
feedback: tool_failed
feedback: tool_not_found
handed out: alone
handed out: beside ours
ignored: input of a tool that does not run
ignored: the rest of a dropped round
no tools: a call repeated without end
no tools: the call cap
no tools: the chain is complete
no tools: the loop cap
no tools: too many mistakes of one kind
not run: over_cap
not run: refused
not run: repeated
not run: skipped
not run: unapproved
not run: untold
progress reported
put off: a lookup comes later
put off: after a client's call
put off: not all could be read
question: answered
question: approved
question: approved for the session
question: cancelled
question: declined
question: dropped
question: refused
reference: replaced by the result
repeated: a mutating call
repeated: with nothing new to learn
resumed: a waiting lookup
resumed: an approved call
resumed: an open call
resumed: called again with the answer
skipped: a client's call, after a question
skipped: a client's call, one at a time
skipped: after a call that was put off
skipped: after a failure
skipped: after a question
skipped: after a skipped call
skipped: after an unreadable call
skipped: after the end of the chain
skipped: in a message that was cut off
skipped: just refused
stopped: a block of results
stopped: a call to approve
stopped: a repeated call
stopped: a stop text
stopped: a tool has ended the chain
stopped: no tools left
stopped: too many calls
stopped: too many unreadable calls
untold: a call by bare name
waits: for a barrier
waits: for room
waits: for the end of the message
waits: for the result it refers to
waits: for the same call before it
waits: sequential, for those before it
warmer after a mistake
";

/// The declarations, in the form in which they are counted.
pub(super) struct Possible {
    pub(super) moves: BTreeSet<String>,
    pub(super) outputs: BTreeSet<String>,
    pub(super) rules: BTreeSet<String>,
}

pub(super) fn table() -> Possible {
    let (mut moves, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    let (mut place, mut inputs) = (String::new(), BTreeSet::new());
    for row in MOVES.lines().filter(|row| !row.is_empty()) {
        if let Some(out) = row.trim().strip_prefix(": ") {
            outputs.extend(out.split(' ').map(|out| format!("{place} > {out}")));
            continue;
        }
        let (from, to) = row.split_once(" -> ").expect("a target");
        let (state, input) = from.split_once(' ').expect("a state and an input");
        place = format!("{state} {}", input.trim());
        moves.extend(to.split(' ').map(|after| format!("{place} > {after}")));
        inputs.extend((state != "-").then_some(input.trim()));
    }
    for over in TurnState::ALL.into_iter().filter(|state| state.is_over()).map(TurnState::name) {
        moves.extend(inputs.iter().map(|input| format!("{over} {input} > {over}")));
    }
    let rules = RULES.lines().filter(|rule| !rule.is_empty());
    Possible { moves, outputs, rules: rules.map(str::to_owned).collect() }
}
