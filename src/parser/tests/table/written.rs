//! Calls exactly as models write them, in every format.

/// A call's name and arguments.
pub(super) type Made = (&'static str, &'static str);

/// What a model wrote in a format, the text around calls, and the calls.
pub(super) type Written = (&'static str, &'static str, &'static str, &'static [Made]);

pub(super) const WRITTEN: &[Written] = &[
    (
        "hermes",
        "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
         <tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
        "Sure.\n",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    // EXAONE 4 writes no line breaks, Granite 4 arguments as a string.
    (
        "hermes",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
        "",
        &[("f", "{\"a\": 1}")],
    ),
    (
        "longcat",
        "<longcat_tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</longcat_tool_call>\nDone.",
        "Done.",
        &[("f", "{}")],
    ),
    (
        "tool_calls",
        "<tool_calls>[\n  {\"name\": \"f\", \"arguments\": {}, \"id\": \"1\"}, {\"name\": \"g\"}]</tool_calls>!",
        "!",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "toolcall",
        "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": \"</TOOLCALL>\"}}]</TOOLCALL>",
        "",
        &[("f", "{\"a\": \"</TOOLCALL>\"}")],
    ),
    ("granite3", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "", &[("f", "{}")]),
    ("granite3", "<tool_call>[{\"name\": \"f\", \"arguments\": {}}]", "", &[("f", "{}")]),
    (
        "granite20b",
        "<function_call> {\"name\": \"f\", \"arguments\": {}} <function_call> {\"name\": \"g\"}",
        " ",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "cohere",
        "<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[\n    \
         {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"q\": \"x\"}}\n]<|END_ACTION|>",
        "",
        &[("f", "{\"q\": \"x\"}")],
    ),
    (
        "mistral_array",
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"abcdefghi\"}]",
        "",
        &[("f", "{}")],
    ),
    (
        "internlm",
        "Let me.<|action_start|> <|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\": []}}\n<|action_end|>",
        "Let me.",
        &[("f", "{\"a\": []}")],
    ),
    (
        "gigachat3",
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
        "",
        &[("f", "{}")],
    ),
    ("gigachat31", "<|function_call|>{\"name\": \"f\", \"arguments\": {}}", "", &[("f", "{}")]),
    (
        "mistral_args",
        "[THINK]Hm.[/THINK]Yes.[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[ARGS]{}",
        "Yes.",
        &[("f", "{\"a\": \"[TOOL_CALLS]\"}"), ("g", "{}")],
    ),
    (
        "mistral_args_id",
        "[TOOL_CALLS]f[CALL_ID]aB3dE6gH9[ARGS]{}[TOOL_CALLS]g[ARGS]{}",
        "",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```\
         <｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```\
         <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    (
        "deepseek_v31",
        "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>\
         <｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>Done.",
        "Ok.Done.",
        &[("f", "{}"), ("g", "{\"b\": 2}")],
    ),
    // Without the frame, and without its end.
    ("deepseek_v31", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}", "", &[("f", "{}")]),
    (
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
        "",
        &[("f", "{}")],
    ),
    (
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.a.b:0<|tool_call_argument_begin|>\
         {\"x\": 1}<|tool_call_end|><|tool_call_begin|>functions.c:12<|tool_call_argument_begin|>{}\
         <|tool_call_end|><|tool_calls_section_end|>",
        "",
        &[("a.b", "{\"x\": 1}"), ("c", "{}")],
    ),
    // The section's marks in the singular, no prefix, white space.
    (
        "kimi_k2",
        "<|tool_call_section_begin|>\n<|tool_call_begin|> f:0 <|tool_call_argument_begin|> {} \
         <|tool_call_end|>\n<|tool_call_section_end|>",
        "",
        &[("f", "{}")],
    ),
    (
        "functionary_v31",
        "<function=f>{\"a\": 1}</function><function=g>{}</function>.",
        ".",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    (
        "qwen3_coder",
        "Ok.\n<tool_call>\n<function=f>\n<parameter=s>\n1\n2\n</parameter>\n<parameter=n>\n3\n\
         </parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
        "Ok.\n",
        &[("f", r#"{"s":"1\n2","n":3}"#), ("g", "{}")],
    ),
    // Without its frame, and a file that mentions the tag.
    (
        "qwen3_coder",
        "<function=f>\n<parameter=s>\na </parameter> b\n\n</parameter>\n</function>",
        "",
        &[("f", r#"{"s":"a </parameter> b\n"}"#)],
    ),
    // A tag that is closed twice is closed once, at its end.
    (
        "qwen3_coder",
        "<function=f><parameter=s>a</parameter></parameter></parameter> </function>",
        "",
        &[("f", r#"{"s":"a</parameter></parameter>"}"#)],
    ),
    // An empty value means that it was left out.
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=n>\n\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n\
         <parameter=o>\n{'a': None}\n</parameter>\n<parameter=u>\n7\n</parameter>\n</function>\n</tool_call>",
        "",
        &[("f", r#"{"b":true,"o":{"a":null},"u":"7"}"#)],
    ),
    (
        "mimo",
        "<tool_call><function=f><parameter=s>\nx</parameter><parameter=b>None</parameter></function></tool_call>",
        "",
        &[("f", r#"{"s":"\nx","b":null}"#)],
    ),
    (
        "seed_oss",
        "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=f>\n<parameter=n>\n5\n</parameter>\n\
         </function>\n</seed:tool_call>",
        "",
        &[("f", r#"{"n":5}"#)],
    ),
    (
        "minimax_m2",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a &amp; b</parameter>\n</invoke>\n\
         <invoke name=\"g\">\n<parameter name=\"n\">-1</parameter>\n</invoke>\n</minimax:tool_call>Done.",
        "Done.",
        &[("f", r#"{"s":"a &amp; b"}"#), ("g", r#"{"n":-1}"#)],
    ),
    (
        "dsml_v32",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n\
         <｜DSML｜parameter name=\"s\" string=\"true\">5</｜DSML｜parameter>\n\
         <｜DSML｜parameter name=\"n\" string=\"false\">5</｜DSML｜parameter>\n\
         </｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "",
        &[("f", r#"{"s":"5","n":5}"#)],
    ),
    (
        "dsml_v4",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\
         <｜DSML｜parameter name=\"o\" string=\"false\">[1, 2]</｜DSML｜parameter>\n\
         </｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "",
        &[("f", r#"{"o":[1, 2]}"#), ("g", "{}")],
    ),
    (
        "dsml_v41",
        "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\
         <｜DSML｜ parameter name=\"b\" string=\"false\">true</｜DSML｜ parameter>\n\
         </｜DSML｜ invoke>\n</｜DSML｜ calls>",
        "",
        &[("f", r#"{"b":true}"#)],
    ),
    (
        "gcml",
        "<｜GCML｜tool_calls>\n<｜GCML｜invoke name=\"f\">\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>",
        "",
        &[("f", "{}")],
    ),
    (
        "glm45",
        "<think>Hm.</think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n\
         <arg_key>n</arg_key>\n<arg_value>3.0</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
        "\n",
        &[("f", r#"{"s":"x","n":3.0}"#), ("g", "{}")],
    ),
    (
        "glm47",
        "<tool_call>f<arg_key>s</arg_key><arg_value>null</arg_value></tool_call><tool_call>g</tool_call>!",
        "!",
        &[("f", r#"{"s":"null"}"#), ("g", "{}")],
    ),
    (
        "lfm2",
        "Ok.<|tool_call_start|>[f(s='it\\'s', n=-1.5, b=True, o={\"a\": [None, (1, 2)]}), g()]<|tool_call_end|>.",
        "Ok..",
        &[("f", r#"{"s":"it's","n":-1.5,"b":true,"o":{"a":[null,[1,2]]}}"#), ("g", "{}")],
    ),
    (
        "lfm2",
        "<|tool_call_start|>[Calendar.create_event(title=\"a ] b\", day='}')]<|tool_call_end|>",
        "",
        &[("Calendar.create_event", r#"{"title":"a ] b","day":"}"}"#)],
    ),
    (
        "gemma4",
        "<|channel>thought\nHm.<channel|><|tool_call>call:f{s:<|\"|>say \"}\"<|\"|>,n:1,b:true,o:{a:[1,<|\"|>x<|\"|>]}}<tool_call|>",
        "",
        &[("f", r#"{"s":"say \"}\"","n":1,"b":true,"o":{"a":[1,"x"]}}"#)],
    ),
    (
        "functiongemma",
        "<start_function_call>call:f{s:<escape>a\\b<escape>,n:2}<end_function_call><start_function_call>call:g{}<end_function_call>",
        "",
        &[("f", r#"{"s":"a\\b","n":2}"#), ("g", "{}")],
    ),
    (
        "ernie45",
        "<think>Hm.</think><response>\nI will look.\n</response>\n<tool_call>\n\
         {\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
        "I will look.\n",
        &[("f", "{}")],
    ),
    (
        "apertus",
        "<|inner_prefix|>Hm.<|inner_suffix|><|tools_prefix|>[{\"f\": {\"s\": \"x\"}}, {\"g\": {}}]<|tools_suffix|>",
        "",
        &[("f", "{\"s\": \"x\"}"), ("g", "{}")],
    ),
    (
        "apertus",
        "<|tools_prefix|>[{\"f\": \"{\\\"s\\\": 1}\"}, {\"g\": null}]<|tools_suffix|>",
        "",
        &[("f", "{\"s\": 1}"), ("g", "{}")],
    ),
    (
        "cohere_r_plus",
        "Plan: I will look.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \
         \"parameters\": {\n            \"s\": \"x\"\n        }\n    }\n]\n```\nDone.",
        "Plan: I will look.\nDone.",
        &[("f", "{\n            \"s\": \"x\"\n        }")],
    ),
    (
        "inkling",
        "<|message_model|>f<|content_invoke_tool_json|>{\"name\": \"f\", \"args\": {\"n\": 1}}<|end_message|>",
        "",
        &[("f", "{\"n\": 1}")],
    ),
    (
        "plamo3",
        "<|plamo:begin_think:plamo|>Hm.<|plamo:end_think:plamo|><|plamo:begin_tool_requests:plamo|>\
         <|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>f<|plamo:end_tool_name:plamo|>\
         <|plamo:begin_tool_arguments:plamo|><|plamo:msg|>{\"s\": \"x\"}\
         <|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>\
         <|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>g<|plamo:end_tool_name:plamo|>\
         <|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{}\
         <|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>\
         <|plamo:end_tool_requests:plamo|>",
        "",
        &[("f", "{\"s\": \"x\"}"), ("g", "{}")],
    ),
    (
        "step3",
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"f\">\
         <steptml:parameter name=\"s\">x</steptml:parameter><steptml:parameter name=\"n\">5</steptml:parameter>\
         </steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        "",
        &[("f", r#"{"s":"x","n":5}"#)],
    ),
    (
        "step5",
        "<tool_call><function=f><parameter=b>None</parameter></function></tool_call>",
        "",
        &[("f", r#"{"b":null}"#)],
    ),
    (
        "hunyuan",
        "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n</tool_call>\n\
         <tool_call>g<tool_sep>\n</tool_call>\n</tool_calls>",
        "",
        &[("f", r#"{"s":"x"}"#), ("g", "{}")],
    ),
    // Hunyuan 4.
    (
        "hunyuan",
        "<tool_calls>\n<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n</tool_call>\n</tool_calls>",
        "",
        &[("f", r#"{"n":5}"#)],
    ),
    (
        "hunyuan_opensource",
        "<think:opensource>Hm.</think:opensource><tool_calls:opensource>\n<tool_call:opensource>f\
         <tool_sep:opensource>\n<arg_key:opensource>s</arg_key:opensource>\n\
         <arg_value:opensource>x</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        "",
        &[("f", r#"{"s":"x"}"#)],
    ),
    (
        "k2_horizon",
        "<ifm|think_fast>Hm.</ifm|think_fast><ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>s</ifm|arg_key>\n\
         <ifm|arg_value>x</ifm|arg_value>\n<ifm|arg_key>u</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type>\
         <ifm|arg_value>5</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>",
        "",
        &[("f", r#"{"s":"x","u":5}"#)],
    ),
    (
        "kimi_k3",
        "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>I will look.<|close|>response<|sep|>\
         <|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>\
         <|open|>argument key=\"s\" type=\"string\"<|sep|>5<|close|>argument<|sep|>\
         <|open|>argument key=\"u\" type=\"number\"<|sep|>5<|close|>argument<|sep|><|close|>call<|sep|>\
         <|open|>call tool=\"g\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|end_of_msg|>",
        "I will look.",
        &[("f", r#"{"s":"5","u":5}"#), ("g", "{}")],
    ),
    (
        "dots",
        "<dots_function_call>\n<invoke name=\"f\">\n<parameter name=\"s\">x</parameter>\n</invoke>\n</dots_function_call>",
        "",
        &[("f", r#"{"s":"x"}"#)],
    ),
    (
        "minicpm5",
        "<function name=\"f\"><param name=\"s\"><![CDATA[a < b && c]]></param><param name=\"n\">5</param></function>\
         <function name=\"g\"></function>",
        "",
        &[("f", r#"{"s":"a < b && c","n":5}"#), ("g", "{}")],
    ),
    (
        "llama3",
        "{\"name\": \"f\", \"parameters\": {\"s\": \"}\"}}; {\"name\": \"g\", \"parameters\": {}}",
        "",
        &[("f", "{\"s\": \"}\"}"), ("g", "{}")],
    ),
    (
        "llama3",
        "\n\n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}<|eom_id|>",
        "\n\n",
        &[("f", "{}")],
    ),
    (
        "llama3",
        "I will look.<|python_tag|>{\"name\": \"f\", \"arguments\": {}}<|eom_id|>",
        "I will look.",
        &[("f", "{}")],
    ),
    (
        "xlam",
        "<think>Hm.</think>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
        "",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "xlam",
        "```json\n[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]\n```",
        "",
        &[("f", "{\"n\": 1}")],
    ),
    ("xlam", "Yes. [TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", "Yes. ", &[("f", "{}")]),
    (
        "functools",
        " functools[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
        " ",
        &[("f", "{\"n\": 1}"), ("g", "{}")],
    ),
    (
        "minimax_m3",
        "<mm:think>Hm.</mm:think>]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">\
         ]<]minimax[>[<s>a\nb]<]minimax[>[</s>]<]minimax[>[<o>]<]minimax[>[<item>1]<]minimax[>[</item>\
         ]<]minimax[>[</o>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"g\">]<]minimax[>[</invoke>\n\
         ]<]minimax[>[</tool_call>.",
        ".",
        &[("f", r#"{"s":"a\nb","o":["1"]}"#), ("g", "{}")],
    ),
    // An answer without thinking, a frame that is missing, and an end that is.
    (
        "minimax_m3",
        "</mm:think>Ok.]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<b>no]<]minimax[>[</b>",
        "Ok.",
        &[("f", r#"{"b":"no"}"#)],
    ),
    (
        "minimax_m3",
        "]<]minimax[>[<invoke name=\"f\">\n]<]minimax[>[<n>5]<]minimax[>[</n>\n",
        "",
        &[("f", r#"{"n":5}"#)],
    ),
    (
        "cohere_xml",
        "<|START_THINKING|>Hm.<|END_THINKING|><cofl:tool_calls><cofl:tool_call id=\"0\" name=\"f\">\
         <cofl:value name=\"s\" type=\"raw\">x</cofl:value><cofl:value name=\"o\" type=\"list\">\
         <cofl:value type=\"json\">1</cofl:value></cofl:value></cofl:tool_call>\
         <cofl:tool_call id=\"1\" name=\"g\"></cofl:tool_call></cofl:tool_calls>\
         <|START_TEXT|>Done.<|END_TEXT|>",
        "Done.",
        &[("f", r#"{"s":"x","o":[1]}"#), ("g", "{}")],
    ),
    (
        "olmo3",
        "Ok.<function_calls>f(s=\"</function_calls>\", n=1)\ng()</function_calls>",
        "Ok.",
        &[("f", r#"{"s":"</function_calls>","n":1}"#), ("g", "{}")],
    ),
    (
        "olmo3",
        "<function_calls>\n f(s=null),\n\n g(\n)",
        "",
        &[("f", r#"{"s":null}"#), ("g", "{}")],
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.\
         <|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"s\":1}\
         <|call|>",
        "I look.",
        &[("f", "{\"s\":1}")],
    ),
    // The recipient before the channel, as the template writes it; the words that models leave out; and the
    // end of a message in place of the end of a call.
    (
        "harmony",
        " to=functions.f<|channel|>commentary json<|message|>{}<|end|><|start|>assistant to=g\
         <|channel|>analysis<|message|>{\"n\": 2}<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
        "Done.",
        &[("f", "{}"), ("g", "{\"n\": 2}")],
    ),
    // A change of mind within a header, a call without arguments, and an answer without a header.
    (
        "harmony",
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant\
         <|channel|>commentary to=functions.f<|message|><|call|>Words.",
        "Words.",
        &[("f", "{}")],
    ),
    // A header without its end goes as far as its words, and no further than the next mark.
    (
        "harmony",
        "<|channel|>analysis We look.<|end|><|start|>assistant<|channel|>commentary to=functions.f \
         <|constrain|>json{\"n\":1}<|call|><|start|>assistant<|channel|>final Hello <b>there</b>.<|end|>",
        "Hello <b>there</b>.",
        &[("f", "{\"n\":1}")],
    ),
    (
        "harmony",
        "<|channel|>analysis<|channel|>final<|message|>Yes.<|end|><|start|>functions.f to=assistant\
         <|channel|>commentary<|message|>{\"made\": \"up\"}<|end|><|start|>user<|message|>And?",
        "Yes.",
        &[],
    ),
    // Calls without arguments, which nothing or another message ends, and a header without its opener.
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|>assistant<|channel|>commentary to=functions.f<|message|>\
         <|channel|>commentary to=functions.g code<|message|>",
        "",
        &[("f", "{}"), ("g", "{}")],
    ),
    // Neither the header of what is no call is shown, nor what is thought in it.
    (
        "harmony",
        "<|channel|>analysis to=python code<|message|>print(1)<|end|> to=functions.f<|channel|>commentary\n\
         <|message|>\n```json\n{}\n```\n<|call|>Done.",
        "Done.",
        &[("f", "{}")],
    ),
    // Words run together, roles that are none, and a recipient without the blank before it.
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|>analysis<|message|>Still.<|end|>commentary to=functions.f\
         <|message|>{}<|end|><|start|>assistantassistant<|channel|>to=g<|message|>{}<|call|>assistantfinal\
         <|message|>Done.<|end|><|start|>assistant",
        "Done.",
        &[("f", "{}"), ("g", "{}")],
    ),
    ("beam", " to=f<|channel|>analysis <|constrain|>xml<|message|>\n", "", &[("f", "{}")]),
    (
        "beam",
        " to=f<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name=\"s\">\nx\n</rfl:parameter>\n\
         <rfl:parameter name=\"n\">5</rfl:parameter><|call|><|start|>assistant<|channel|>final<|message|>Yes.",
        "Yes.",
        &[("f", r#"{"s":"x","n":5}"#)],
    ),
    (
        "muse",
        " to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n\
         <atem:invoke name=\"f\">\n<atem:parameter name=\"s\">x</atem:parameter>\n</atem:invoke>\n\
         <atem:invoke name=\"g\">\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=user\
         <|message|>Done.<|eot|>",
        "Done.",
        &[("f", r#"{"s":"x"}"#), ("g", "{}")],
    ),
    ("muse", " to=f<|message|><atem:invoke name=\"f\">\n</atem:invoke>", "", &[("f", "{}")]),
    ("functionary_v32", "f\r\n\n>>>all\r\nSo.", "So.", &[("f", "{}")]),
    (
        "functionary_v32",
        "all\nI look.\n>>>f\n{\"s\": \">>>g\"}>>>g\n{}",
        "I look.\n",
        &[("f", "{\"s\": \">>>g\"}"), ("g", "{}")],
    ),
    ("functionary_v32", "f\n{}", "", &[("f", "{}")]),
    ("pythonic", "[f(s='x', n=1), g()]", "", &[("f", r#"{"s":"x","n":1}"#), ("g", "{}")]),
];
