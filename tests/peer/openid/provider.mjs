// An OpenID Connect provider on loopback that gives access tokens by client credentials. Its argument is an object of
// JSON: `port` (0 picks one), `audience`, `clients` by id, each with `secret`, `lifetime` in seconds, and `algorithm`.
// It prints its issuer once it listens, and makes new keys each time that it starts.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const { port, audience, clients } = JSON.parse(process.argv[2]);

function key(alg, type, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() };
}

const keys = [
  key('RS256', 'rsa', { modulusLength: 2048 }),
  key('PS256', 'rsa', { modulusLength: 2048 }),
  key('ES256', 'ec', { namedCurve: 'P-256' }),
];

const server = createServer();
server.listen(port, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: Object.entries(clients).map(([id, { secret }]) => ({
      client_id: id,
      client_secret: secret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_post',
    })),
    scopes: ['cluster'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        getResourceServerInfo: (ctx, resource, client) => ({
          audience: resource,
          scope: 'cluster',
          accessTokenFormat: 'jwt',
          accessTokenTTL: clients[client.clientId].lifetime,
          jwt: { sign: { alg: clients[client.clientId].algorithm } },
        }),
      },
    },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
