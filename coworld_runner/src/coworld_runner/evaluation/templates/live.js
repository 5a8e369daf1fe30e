const socket = new WebSocket(new URL("changes", location.href).href.replace(/^http/, "ws"));
socket.onmessage = () => location.reload();
socket.onclose = () => { document.getElementById("live").textContent = "no longer live"; };
for (const part of document.querySelectorAll("details")) {
  part.open = sessionStorage.getItem("open") === "yes";
  part.ontoggle = () => sessionStorage.setItem("open", part.open ? "yes" : "no");
}
