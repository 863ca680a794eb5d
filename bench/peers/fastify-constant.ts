import Fastify from 'fastify';

const statuses = ['available', 'pending', 'sold'];
const page = JSON.stringify(
  Array.from({ length: 20 }, (_, index) => ({
    id: 100_020 - index,
    name: `Pet ${100_020 - index}`,
    categoryId: index % 10,
    status: statuses[index % statuses.length],
  })),
);

const app = Fastify();

app.get('/v1/pets', (_request, reply) => reply.type('application/json').send(page));

process.once('SIGTERM', () => app.close());
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
