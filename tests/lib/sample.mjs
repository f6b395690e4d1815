// A value that a JSON Schema allows, in plain cases.

const FORMATS = {
  date: '2026-11-23',
  'date-time': '2026-11-23T12:00:00Z',
  time: '12:00:00Z',
  duration: 'PT1H',
  email: 'ada@example.org',
  'idn-email': 'ada@example.org',
  hostname: 'example.org',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.org/a',
  url: 'https://example.org/a',
  'uri-reference': '/a',
  uuid: '123e4567-e89b-42d3-a456-426614174000',
  byte: 'YQ==',
  'json-pointer': '/a',
};
const DEEPEST = 6;

/**
 * A value for `schema`; `undefined` if only infinite ones would do. With `isSparse`, objects have
 * only the members that are required.
 */
export function sample(schema, isSparse = false) {
  return new Sampler(schema, isSparse).of(schema, 0);
}

class Sampler {
  constructor(root, isSparse) {
    this.root = root;
    this.isSparse = isSparse;
  }

  of(schema, depth) {
    if (schema === true || schema === undefined) return 'any';
    if (schema.$ref) {
      if (depth > DEEPEST) return undefined;
      const { $ref, ...more } = schema;
      return this.of({ ...this.root.$defs[$ref.replace('#/$defs/', '')], ...more }, depth + 1);
    }
    if ('const' in schema) return schema.const;
    if (schema.enum) return schema.enum.find((value) => fits(value, schema.type));
    if (schema.allOf) return this.all(schema, depth);
    if (schema.oneOf ?? schema.anyOf) return this.one(schema, depth);
    return this.ofType(schema, depth);
  }

  all({ allOf, ...rest }, depth) {
    let value = rest.type || rest.properties ? this.ofType(rest, depth) : undefined;
    for (const part of allOf.filter((it) => it.$ref || it.type || it.properties || it.allOf || it.oneOf)) {
      const more = this.of(part, depth + 1);
      if (more === undefined) return undefined;
      value = typeof value === 'object' && typeof more === 'object' ? { ...value, ...more } : more;
    }
    return value;
  }

  one({ oneOf, anyOf, ...rest }, depth) {
    for (const choice of oneOf ?? anyOf) {
      const value = this.of(choice.$ref ? choice : { ...rest, ...choice }, depth + 1);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  ofType(schema, depth) {
    const types = [schema.type ?? (schema.properties ? 'object' : schema.items ? 'array' : 'string')].flat();
    switch (types.find((type) => type !== 'null') ?? 'null') {
      case 'null': return null;
      case 'boolean': return true;
      case 'integer': return number(schema, 1);
      case 'number': return number(schema, 1.5);
      case 'array': return this.array(schema, depth);
      case 'object': return this.object(schema, depth);
      default: return string(schema);
    }
  }

  array({ items = {}, minItems = 1, maxItems = Infinity, uniqueItems }, depth) {
    if (depth > DEEPEST && minItems <= 1) return [];
    const item = this.of(Array.isArray(items) ? items[0] : items, depth + 1);
    if (item === undefined) return minItems > 1 ? undefined : [];
    const length = uniqueItems ? 1 : Math.min(Math.max(1, minItems), maxItems);
    return Array.from({ length }, () => item);
  }

  object({ properties = {}, required = [], additionalProperties }, depth) {
    const value = {};
    for (const [name, schema] of Object.entries(properties)) {
      const isNeeded = required.includes(name);
      if (!isNeeded && (this.isSparse || depth > DEEPEST)) continue;
      const member = this.of(schema, depth + 1);
      if (member !== undefined) value[name] = member;
      else if (isNeeded) return undefined;
    }
    if (Object.keys(properties).length === 0 && typeof additionalProperties === 'object') {
      const member = this.of(additionalProperties, depth + 1);
      if (member !== undefined) value.key = member;
    }
    return value;
  }
}

function fits(value, types) {
  if (types === undefined) return true;
  const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  return [types].flat().some((type) => type === kind || (type === 'integer' && Number.isInteger(value)));
}

function number({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }, usual) {
  if (multipleOf) {
    const least = Math.max(multipleOf, minimum ?? 0, exclusiveMinimum ?? 0);
    return multipleOf * (Math.floor(least / multipleOf) + (exclusiveMinimum >= least || least % multipleOf ? 1 : 0));
  }
  let value = Math.max(usual, minimum ?? usual, (exclusiveMinimum ?? usual - 1) + 1);
  if (maximum !== undefined) value = Math.min(value, maximum);
  if (exclusiveMaximum !== undefined) value = Math.min(value, exclusiveMaximum - 1);
  return value;
}

// Texts for the patterns of real documents.
const MATCHING = [
  'word', 'stable', '12', 'a.json', 'a'.repeat(24), 'axb', 'rdme_x', '#fff', '2026-11-23', '/projects/me',
  `/projects/me/apikeys/${'a'.repeat(24)}`, `/images/${'a'.repeat(24)}`, '/changelogs/a', '/branches/stable',
  ...['guides/a', 'reference/a', 'categories/guides/a', 'recipes/a', 'apis/a.json', 'custom_pages/a']
    .map((rest) => `/versions/stable/${rest}`),
];

function string({ format, pattern, minLength = 0, maxLength = Infinity }) {
  if (pattern) return MATCHING.find((text) => new RegExp(pattern, 'u').test(text));
  return (FORMATS[format] ?? 'word').padEnd(minLength, 'x').slice(0, maxLength);
}
