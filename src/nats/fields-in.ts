/** The fields of the JSON object that stands under a key; none where it is no object, or no JSON. What it has is to be checked:
 *  whoever may ask NATS anything can have its answer put under any key. */
export function fieldsIn<Entry>(data: Uint8Array): Partial<Entry> {
  try {
    return Object(JSON.parse(Buffer.from(data).toString())) as Partial<Entry>;
  } catch {
    return {};
  }
}
