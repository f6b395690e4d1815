// All clients, by API.

import agUi from './ag_ui.mjs';
import aiSdk from './ai_sdk.mjs';
import aiSdkChat from './ai_sdk_chat.mjs';
import openai from './openai.mjs';
import python from './python.mjs';

const APIS = ['Chat Completions', 'Responses', 'Messages', 'AI SDK', 'AG-UI'];

export const CLIENTS = [...openai, ...python, ...aiSdk, ...aiSdkChat, ...agUi]
  .sort((one, other) => APIS.indexOf(one.api) - APIS.indexOf(other.api));
