// A player that names the number of its first argument.

import { connect } from "../lib/websocket.mjs";

const game = await connect(process.env.COWORLD_PLAYER_WS_URL);
game.onText = () => game.send({ number: Number(process.argv[2]) });
game.onEnd = () => process.exit(0);
