"""A project of Django with a login, for the example in docs/web.md; ada is of the staff."""

import sys
import types

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.urls import path


def set_up(folders: pytest.TempPathFactory) -> None:
    """Set up Django once in this process: users and sessions in SQLite, and a login."""
    if settings.configured:
        return
    urls = types.ModuleType("ackq_test_urls")
    settings.configure(
        SECRET_KEY="a secret of this test",
        ROOT_URLCONF=urls.__name__,
        ALLOWED_HOSTS=["admin.example.com"],
        LOGIN_URL="/login",
        USE_TZ=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": folders.mktemp("django") / "users.sqlite3",
            }
        },
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.auth.middleware.LoginRequiredMiddleware",
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        SESSION_COOKIE_SECURE=True,
    )
    django.setup()
    from django.contrib.auth.decorators import login_not_required

    public = login_not_required(login)
    vars(urls)["urlpatterns"] = [path("login", public), path("logout", logout), path("me", me)]
    sys.modules[urls.__name__] = urls
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User  # needs the settings

    User.objects.create_user("ada", password="x", is_staff=True)
    User.objects.create_user("mallory", password="x")


def login(request: HttpRequest) -> HttpResponse:
    from django.contrib import auth

    user = auth.authenticate(request, username=request.GET["user"], password="x")
    auth.login(request, user)
    return HttpResponse()


def logout(request: HttpRequest) -> HttpResponse:
    from django.contrib import auth

    auth.logout(request)
    return HttpResponse()


def me(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.user.get_username())
