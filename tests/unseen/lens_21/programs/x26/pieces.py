from torch.nn import functional as F


def train_record(model, optimizer, record, pieces):
    """Goes through a record piece by piece; after each, the weights are changed and the state is carried on."""
    state, total = None, 0.0
    for before, after in zip(record[:, :-1].chunk(pieces, 1), record[:, 1:].chunk(pieces, 1)):
        guessed, state = model(before, state)
        loss = F.mse_loss(guessed, after)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = state.detach()
        total += loss.detach() / pieces
    return total
