import { insertAuditEvent } from '../audit/repository.ts';
import { CommandError } from '../command-error.ts';
import type { Database } from '../db/database.ts';
import { type Account, findAccount, insertAccount } from './repository.ts';

/** @throws CommandError where there is an account of that name */
export function createAccount(db: Database, name: string, actor: string): Promise<Account> {
  return db.transaction().execute(async (transaction) => {
    const account = await addAccount(transaction, name, actor);
    if (account === undefined) throw new CommandError(`there is an account named "${name}" already`);
    return account;
  });
}

/** The account of that name, made where there is none. Give it a transaction. */
export async function findOrCreateAccount(
  transaction: Database,
  name: string,
  actor: string,
): Promise<Account> {
  const account = (await addAccount(transaction, name, actor)) ?? (await findAccount(transaction, name));
  if (account === undefined) throw new Error('accounts are never deleted');
  return account;
}

async function addAccount(transaction: Database, name: string, actor: string): Promise<Account | undefined> {
  const account = await insertAccount(transaction, name);
  if (account !== undefined) {
    await insertAuditEvent(transaction, {
      actor,
      action: 'account.created',
      account_id: account.id,
      key_id: null,
    });
  }
  return account;
}
