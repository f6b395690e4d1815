//! The names of attributes by the semantic conventions of OpenTelemetry, and those that only Tether has.

pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(super) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(super) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(super) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(super) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
pub(super) const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
pub(super) const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(super) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const SERVER_ADDRESS: &str = "server.address";
pub(super) const SERVER_PORT: &str = "server.port";

pub(super) const TETHER_TOOL_SOURCE: &str = "tether.tool.source";
pub(super) const TETHER_TURN_ID: &str = "tether.turn.id";
pub(super) const TETHER_TURN_OUTCOME: &str = "tether.turn.outcome";
