"""A login for the example of FastAPI in docs/web.md; ada is of the staff."""

from collections.abc import Callable

from fastapi import Depends, FastAPI, Request


def add_login(app: FastAPI, staff: Callable[[Request], str]) -> None:
    """Add the login, and a page that depends on it."""

    @app.post("/login")
    def login(request: Request, user: str) -> None:
        request.session.update(user=user, is_staff=user == "ada")

    @app.post("/logout")
    def logout(request: Request) -> None:
        request.session.clear()

    @app.get("/me")
    def me(user: str = Depends(staff)) -> str:
        return user
