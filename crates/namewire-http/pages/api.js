// GraphQL by HTTP and by WebSocket (graphql-transport-ws), with the token of this tab.

const KEY = "namewire-token";

/** The token: from the fragment of a link (`#token=…`), which servers never see, or entered before. */
export function token() {
  const given = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(KEY, given[1]);
    history.replaceState(null, "", "#/overview");
  }
  return sessionStorage.getItem(KEY);
}

export function keepToken(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** An error of the API with its code. */
export class ApiError extends Error {
  constructor(text, code) {
    super(text);
    this.code = code;
  }
}

/** The data of a query or mutation. */
export async function query(text, variables = {}) {
  const response = await fetch("/graphql", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token()}` },
    body: JSON.stringify({ query: text, variables }),
  });
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  if (!isJson) throw new ApiError((await response.text()).trim(), "HTTP");
  const { data, errors } = await response.json();
  if (errors) throw new ApiError(errors[0].message, errors[0].extensions?.code);
  return data;
}

/** Follows a subscription, or several without variables, until `stop()` or an error of one; connects again after a loss. */
export class Subscription {
  constructor(text, { onData, onState, onError, variables = {} }) {
    Object.assign(this, { text, onData, onState, onError, variables, pause: 500, stopped: false });
    this.connect();
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/graphql`, "graphql-transport-ws");
    const send = (message) => this.socket.send(JSON.stringify(message));
    this.socket.onopen = () => send({ type: "connection_init", payload: { token: token() } });
    this.socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      if (message.type === "connection_ack") {
        this.pause = 500;
        this.onState("live");
        [this.text].flat().forEach((query, at) =>
          send({ type: "subscribe", id: String(at + 1), payload: { query, variables: this.variables } }));
      } else if (message.type === "next" && message.payload.data) {
        this.onData(message.payload.data);
      } else if (message.type === "ping") {
        send({ type: "pong" });
      } else if (message.type === "error" || message.payload?.errors) {
        const [error] = message.payload.errors ?? message.payload;
        this.stop();
        this.onError(new ApiError(error.message, error.extensions?.code));
      }
    };
    this.socket.onclose = (event) => {
      if (this.stopped) return;
      this.onState(event.code === 4401 || event.code === 1002 ? "refused" : "lost");
      // Asking for another token ends this connection.
      if (this.stopped) return;
      this.timer = setTimeout(() => this.connect(), this.pause);
      this.pause = Math.min(this.pause * 2, 15000);
    };
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}
