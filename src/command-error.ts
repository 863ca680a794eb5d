/** An operator asked for something that cannot be done; the message says what and why, in one line. */
export class CommandError extends Error {}
