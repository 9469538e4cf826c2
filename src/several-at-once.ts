// Something done for each of many, so many at a time: the next is begun when one of these has ended.

/** Rejects with the first that fails; what has begun by then goes on, and more of it may begin. */
export async function severalAtOnce<Item>(
  atOnce: number,
  items: readonly Item[],
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const left = items.values();
  const line = async (): Promise<void> => {
    for (const item of left) await act(item);
  };
  await Promise.all(Array.from({ length: atOnce }, line));
}
