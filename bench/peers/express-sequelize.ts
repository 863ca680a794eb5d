import pg from 'pg';
import {
  type CreationOptional,
  DataTypes,
  type InferAttributes,
  type InferCreationAttributes,
  Model,
  Op,
  Sequelize,
} from 'sequelize';
import { serve } from './express-app.ts';
import { type PetStatus, petStatuses, toPet } from './protocol.ts';

pg.types.setTypeParser(pg.types.builtins.INT8, Number);

const sequelize = new Sequelize(process.env.DATABASE_URL ?? '', {
  dialect: 'postgres',
  logging: false,
  pool: { max: 10 },
  define: { timestamps: false, underscored: true },
});

class Pet extends Model<InferAttributes<Pet>, InferCreationAttributes<Pet>> {
  declare id: CreationOptional<number>;
  declare name: string;
  declare categoryId: number;
  declare status: PetStatus | null;
}

Pet.init(
  {
    id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
    name: { type: DataTypes.TEXT, allowNull: false },
    categoryId: { type: DataTypes.BIGINT, allowNull: false },
    status: { type: DataTypes.TEXT, validate: { isIn: [petStatuses] } },
  },
  { sequelize, tableName: 'pets' },
);

class ApiKey extends Model<InferAttributes<ApiKey>, InferCreationAttributes<ApiKey>> {
  declare id: CreationOptional<string>;
  declare hash: Buffer;
  declare expiresAt: Date | null;
  declare revokedAt: Date | null;
}

ApiKey.init(
  {
    id: { type: DataTypes.UUID, primaryKey: true },
    hash: { type: DataTypes.BLOB, allowNull: false, unique: true },
    expiresAt: { type: DataTypes.DATE },
    revokedAt: { type: DataTypes.DATE },
  },
  { sequelize, tableName: 'api_keys' },
);

serve({
  async findKey(hash) {
    const key = await ApiKey.findOne({
      attributes: ['id'],
      where: {
        hash,
        revokedAt: null,
        expiresAt: { [Op.or]: [null, { [Op.gt]: sequelize.fn('now') }] },
      },
      raw: true,
    });
    return key ?? undefined;
  },

  async listPets({ limit, status, before }) {
    const rows = await Pet.findAll({
      where: {
        ...(status !== undefined && { status }),
        ...(before !== undefined && { id: { [Op.lt]: before } }),
      },
      order: [['id', 'DESC']],
      limit,
      raw: true,
    });
    return rows.map(toPet);
  },

  async findPet(id) {
    const row = await Pet.findByPk(id, { raw: true });
    return row === null ? undefined : toPet(row);
  },

  async createPet({ name, categoryId, status = null }) {
    const pet = await Pet.create({ name, categoryId, status });
    return toPet(pet.get({ plain: true }));
  },

  close: () => sequelize.close(),
});
