import random


class Person:
    def __init__(self, age, parents):
        self.age, self.parents, self.children = age, parents, []
        for parent in parents:
            parent.children.append(self)


def grow(count):
    rng, people = random.Random(2), []
    for _ in range(count):
        people.append(Person(rng.random(), rng.sample(people[-40:], 2) if len(people) > 2 else []))
    return people
