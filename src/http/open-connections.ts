import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** The connections of clients that are open, from now on; who listens for new ones after this finds them in it. */
export function openConnections({ server }: FastifyInstance): ReadonlySet<Socket> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  return open;
}
