// How much of the machine a tool takes.
import { constants, setPriority } from 'node:os';

/** For good: a service that runs beside it is waited for. */
export function letServicesGoFirst(): void {
  setPriority(constants.priority.PRIORITY_LOW);
}
