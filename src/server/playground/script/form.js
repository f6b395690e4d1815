// Forms to fill in, for questions that have a schema.

// The input types that browsers have for text, by a schema's format.
const TEXTS = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local' };

// A time as the field for it takes it: of the user's zone, and without naming it.
function localTime(text) {
  const at = new Date(text);
  return isNaN(at) ? '' : new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// A form made from a JSON Schema: an object of texts, numbers, booleans, choices and lists (MCP, elicitation).
class Form {
  root = element('form', 'fields');
  #fields = [];
  constructor(schema) {
    const required = schema.required ?? [];
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      const id = `field-${newId()}`, row = element('div'), label = Object.assign(element('label', '', property.title ?? name), { htmlFor: id });
      const field = Form.#field(property, id, required.includes(name));
      if (!required.includes(name) && field.node.type !== 'checkbox') label.append(element('small', '', ' optional'));
      row.append(label, field.node);
      if (property.description) row.append(element('small', '', property.description));
      this.root.append(row);
      this.#fields.push({ name, title: property.title ?? name, read: field.read });
    }
  }
  // Generators describe a field that may be left out as its type or null. The form asks for the type.
  static #plain(schema) {
    const { oneOf, anyOf, ...rest } = schema ?? {}, branches = (oneOf ?? anyOf ?? []).filter((branch) => branch?.type !== 'null');
    if (branches.length && branches.every((branch) => branch?.const !== undefined)) return { ...rest, oneOf: branches };
    if (branches.length) return Form.#plain({ ...rest, ...branches[0] });
    return { ...rest, type: [rest.type].flat().find((type) => type !== 'null') };
  }
  // The choices of a schema, with their titles if it has any.
  static #choices(schema) {
    if (schema.oneOf) return schema.oneOf.map((choice) => [choice.const, choice.title ?? choice.const]);
    return (schema.enum ?? []).map((value, at) => [value, schema.enumNames?.[at] ?? value]);
  }
  static #field(property, id, required) {
    const schema = Form.#plain(property);
    if (schema.type === 'array') {
      const items = Form.#plain(schema.items), choices = Form.#choices(items), given = [schema.default ?? []].flat();
      if (!choices.length) {
        const node = Object.assign(element('textarea'), { id, dir: 'auto', required: required && schema.minItems > 0, rows: 3, value: given.join('\n'), placeholder: 'One per line' });
        const exact = (line) => ['number', 'integer'].includes(items.type) && !isNaN(line) ? Number(line) : line;
        const lines = () => node.value.split('\n').map((line) => line.trim()).filter(Boolean);
        return { node, read: () => lines().length || required ? lines().map(exact) : undefined };
      }
      const list = Object.assign(element('div'), { id }), boxes = [];
      for (const [value, title] of choices) {
        const box = Object.assign(element('input'), { type: 'checkbox', checked: given.includes(value) }), label = element('label', 'check');
        label.append(box, title);
        list.append(label);
        boxes.push([value, box]);
      }
      return { node: list, read: () => boxes.filter(([, box]) => box.checked).map(([value]) => value) };
    }
    if (schema.type === 'boolean') {
      const node = Object.assign(element('input'), { id, type: 'checkbox', checked: schema.default === true });
      return { node, read: () => node.checked };
    }
    const choices = Form.#choices(schema);
    if (choices.length) {
      const node = Object.assign(element('select'), { id, required });
      node.append(new Option('', ''), ...choices.map(([value, title]) => new Option(title, value, false, value === schema.default)));
      return { node, read: () => choices[node.selectedIndex - 1]?.[0] };
    }
    const node = Object.assign(element('input'), { id, dir: 'auto', required, autocomplete: 'off' });
    if (['number', 'integer'].includes(schema.type)) {
      Object.assign(node, { type: 'number', step: schema.type === 'integer' ? 1 : 'any', min: schema.minimum ?? '', max: schema.maximum ?? '', value: schema.default ?? '' });
      return { node, read: () => node.value === '' ? undefined : Number(node.value) };
    }
    const type = TEXTS[schema.format] ?? 'text', isTime = type === 'datetime-local', given = schema.default ?? '';
    Object.assign(node, { type, step: isTime ? 'any' : '', value: isTime ? localTime(given) : given });
    if (schema.minLength) node.minLength = schema.minLength;
    if (schema.maxLength) node.maxLength = schema.maxLength;
    const exact = (text) => isTime ? new Date(text).toISOString() : text;
    return { node, read: () => node.value === '' ? undefined : exact(node.value) };
  }
  content() {
    const filled = this.#fields.map(({ name, read }) => [name, read()]);
    return Object.fromEntries(filled.filter(([, value]) => value !== undefined));
  }
  words(content) {
    return this.#fields.filter(({ name }) => name in content).map(({ name, title }) => `${title}: ${[content[name]].flat().join(', ')}`).join('\n') || 'Answered';
  }
}
