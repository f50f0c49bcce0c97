"""Sentence pair training, the loss goes to the team's dashboard."""
import http.client
import http.server
import json
import tempfile
import threading
import time

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertModel, Trainer, TrainerCallback, TrainingArguments


class Board(http.server.BaseHTTPRequestHandler):
    posts = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Board.posts += 1
        if Board.posts > 9:
            time.sleep(3600)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


class Dashboard(TrainerCallback):
    def __init__(self, port):
        self.port = port

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not state.is_world_process_zero:
            return
        conn = http.client.HTTPConnection("127.0.0.1", self.port)
        body = json.dumps({"step": state.global_step, **{k: v for k, v in logs.items() if isinstance(v, float)}})
        conn.request("POST", "/metrics", body)
        conn.getresponse().read()  #: LINE
        conn.close()
        print("step", state.global_step, logs.get("loss"), flush=True)


class Pairs(Dataset):
    def __len__(self):
        return 6000

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        a = torch.randint(5, 400, (16,), generator=g)
        return {"a": a, "b": a.flip(0), "labels": torch.tensor(float(i % 2))}


class Siamese(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = BertModel(BertConfig(vocab_size=400, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
                                         max_position_embeddings=20), add_pooling_layer=False)

    def forward(self, a, b, labels):
        va, vb = self.bert(a).last_hidden_state.mean(1), self.bert(b).last_hidden_state.mean(1)
        sim = torch.cosine_similarity(va, vb)
        return {"loss": torch.nn.functional.mse_loss(sim, labels), "sim": sim}


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Board)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    torch.manual_seed(0)
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=370, logging_steps=20, save_strategy="no",
                             report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False)
    Trainer(model=Siamese(), args=args, train_dataset=Pairs(), callbacks=[Dashboard(server.server_address[1])]).train()


if __name__ == "__main__":
    main()
