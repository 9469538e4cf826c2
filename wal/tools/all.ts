// The tools that know the log alone. A program that knows the domain adds its own, or a trim and a restore that know the cursors.
import { archiveTool, trimTool } from './archive.ts';
import { backupTool } from './backup.ts';
import { restoreTool } from './restore.ts';
import { exportTool, importTool } from './export.ts';
import { inspect } from './inspect.ts';
import type { Tool } from './tool.ts';
import { verify } from './verify.ts';

export const walTools: readonly Tool[] = [
  inspect,
  verify,
  exportTool(null),
  importTool(),
  archiveTool(null),
  trimTool(null),
  backupTool(null),
  restoreTool(null),
];
