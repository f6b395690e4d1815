// A chat page on `useChat`. It shows server tools while they run, has a button for each option of a
// question, and continues a running answer after a reload. `examples/README.md` says how to start it.

import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';

const gateway = new URLSearchParams(location.search).get('gateway') ?? 'http://127.0.0.1:8080';

// The address names the chat, so a reload returns to it.
location.hash ||= crypto.randomUUID();
const id = location.hash.slice(1);
const storageKey = `chat ${id}`;

function Chat() {
  const [words, setWords] = useState('');
  const [saved] = useState(() => JSON.parse(localStorage.getItem(storageKey) ?? '[]'));
  const { messages, sendMessage, stop, status, error } = useChat({
    id,
    messages: saved,
    transport: new DefaultChatTransport({ api: `${gateway}/api/v1/ai-sdk/chat` }),
    resume: true,
  });
  useEffect(() => localStorage.setItem(storageKey, JSON.stringify(messages)), [messages]);

  const send = (event) => {
    event.preventDefault();
    sendMessage({ text: words });
    setWords('');
  };
  return (
    <>
      {messages.map((message) => (
        <section key={message.id} aria-label={message.role}>
          {message.parts.map((part, at) => <Part key={at} part={part} answer={sendMessage} />)}
        </section>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={send}>
        <input aria-label="Message" value={words} onChange={(event) => setWords(event.target.value)} />
        {status === 'ready' || status === 'error'
          ? <button>Send</button>
          : <button type="button" onClick={stop}>Stop</button>}
      </form>
    </>
  );
}

/** One part of a message. */
function Part({ part, answer }) {
  if (part.type === 'text') return <p>{part.text}</p>;
  if (part.type === 'reasoning') return <p><em>{part.text}</em></p>;
  if (part.type === 'dynamic-tool') return <p><code>{part.toolName}</code>: {part.state}</p>;
  if (part.type === 'data-clarification') {
    return part.data.options?.map(({ id: option, title }) => (
      <button key={option} onClick={() => answer({ text: title })}>{title}</button>
    ));
  }
  return null;
}

createRoot(document.getElementById('chat')).render(<Chat />);
