// Which of several nodes should have a partition: highest hash of (node, group, partition). A node that leaves moves only
// its own partitions, one that joins takes an even share of everybody's.

/** Nodes from first choice to last. The same everywhere for the same names. */
export function rankNodes(nodes: readonly string[], group: string, partition: number): string[] {
  return nodes
    .map((node) => ({ node, weight: weightOf(`${node}/${group}/${partition}`) }))
    .toSorted((a, b) => b.weight - a.weight || (a.node < b.node ? -1 : 1))
    .map(({ node }) => node);
}

/** FNV-1a, then a finaliser: FNV alone leaves the last character in the low bits. */
function weightOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  hash ^= hash >>> 16;
  return hash >>> 0;
}
