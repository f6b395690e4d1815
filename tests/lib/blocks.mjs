/** The code blocks of a Markdown text, with their languages. */
export function blocks(text) {
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language, code]) => ({ language, code }));
}
