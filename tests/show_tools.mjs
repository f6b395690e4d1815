// Asks questions over Responses, one after another, and shows the server tools that the gateway runs.
//
//   npm install openai
//   node examples/show_tools.mjs "What is 17 * 23?" "And half of it?"

import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.TETHER_URL ?? 'http://127.0.0.1:8080'}/v1`,
  apiKey: process.env.TETHER_API_KEY ?? 'none',
});
const { data: [model] } = await client.models.list();

// Each response continues the one before it. The gateway stores them.
let last;
for (const input of process.argv.slice(2)) {
  const events = await client.responses.create({
    model: model.id,
    input,
    previous_response_id: last?.id,
    stream: true,
  });
  for await (const { type, delta, item, response } of events) {
    if (type === 'response.output_text.delta') process.stdout.write(delta);
    if (type === 'response.output_item.done' && item.type === 'mcp_call') {
      console.log(`[${item.name} ${item.arguments}: ${item.output ?? item.error}]`);
    }
    last = response ?? last;
  }
  console.log();
}
